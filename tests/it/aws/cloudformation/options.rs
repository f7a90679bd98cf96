//! The options of the template: gradual rollouts, workers on Fargate, a key.

use ports::workers::WORKERS;
use serde_json::{Value, json};

use super::{of_type, printed};

/// The template with these options.
async fn with_options(options: &[&str]) -> Value {
    let args = [&["--bucket", "annalist-files"], options].concat();
    serde_json::from_str(&printed(&args).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_template_has_no_part_of_the_options_and_stays_small() {
    let text = printed(&["--bucket", "annalist-files"]).await;
    assert!(text.len() <= 12_500 * WORKERS.len(), "{} bytes", text.len());
    let template: Value = serde_json::from_str(&text).unwrap();
    for service in ["AWS::CodeDeploy", "AWS::ECS", "AWS::ApplicationAutoScaling", "AWS::Lambda::Alias"] {
        assert!(!text.contains(service), "{service}");
    }
    let explicit = with_options(&["--deploy", "all-at-once", "--workers", "lambda"]).await;
    assert_eq!(explicit, template);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_linear_rollout_has_an_alias_and_alarms_for_each_function() {
    let template = with_options(&["--deploy", "linear"]).await;
    let functions = of_type(&template, "AWS::Lambda::Function");
    let aliases = of_type(&template, "AWS::Lambda::Alias");
    let groups = of_type(&template, "AWS::CodeDeploy::DeploymentGroup");
    let versions = of_type(&template, "AWS::Lambda::Version");
    let alarms = of_type(&template, "AWS::CloudWatch::Alarm");
    assert!(functions.len() > 5 && of_type(&template, "AWS::CodeDeploy::Application").len() == 1);
    assert_eq!([aliases.len(), groups.len(), versions.len()], [functions.len(); 3]);
    for (id, function) in &functions {
        let (_, alias) =
            aliases.iter().find(|(_, alias)| alias["Properties"]["FunctionName"]["Ref"] == *id).unwrap();
        assert_eq!(alias["Properties"]["Name"], "live");
        let version = alias["Properties"]["FunctionVersion"]["Fn::GetAtt"][0].as_str().unwrap();
        assert_eq!(versions[version]["Properties"]["FunctionName"]["Ref"], *id);
        let update = &alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"];
        let group = groups[update["DeploymentGroupName"]["Ref"].as_str().unwrap()];
        assert_eq!(
            group["Properties"]["DeploymentConfigName"],
            "CodeDeployDefault.LambdaLinear10PercentEvery3Minutes"
        );
        assert_eq!(group["Properties"]["AutoRollbackConfiguration"]["Enabled"], true);
        let listed = group["Properties"]["AlarmConfiguration"]["Alarms"].as_array().unwrap();
        let listed: Vec<&str> = listed.iter().map(|alarm| alarm["Name"]["Ref"].as_str().unwrap()).collect();
        assert_eq!(listed, [format!("{id}Failing").as_str(), "IngestRefusing", "Quarantined"]);
        for alarm in listed {
            // It exists whenever the function does, whatever `AlarmSet` is.
            let condition = alarms[alarm].get("Condition");
            assert!(condition.is_none() || condition == function.get("Condition"), "{alarm}");
        }
        for resource in [*alias, group, versions[version]] {
            assert_eq!(resource.get("Condition"), function.get("Condition"), "{id}");
        }
    }
    // Every trigger invokes an alias.
    let is_alias = |target: &Value| target["Ref"].as_str().is_some_and(|id| aliases.contains_key(id));
    for kind in ["AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission"] {
        for (id, resource) in of_type(&template, kind) {
            assert!(is_alias(&resource["Properties"]["FunctionName"]), "{id}");
        }
    }
    for (id, rule) in of_type(&template, "AWS::Events::Rule") {
        assert!(is_alias(&rule["Properties"]["Targets"][0]["Arn"]), "{id}");
    }
    let url = &template["Resources"]["IngestUrl"];
    assert_eq!((&url["Properties"]["Qualifier"], &url["DependsOn"]), (&json!("live"), &json!("IngestLive")));
    // It would end with its function, not with its version.
    assert!(!functions["Ingest"]["Properties"]["ReservedConcurrentExecutions"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_on_fargate_are_services_that_grow_with_their_queues() {
    let (template, by_default) = (with_options(&["--workers", "fargate"]).await, with_options(&[]).await);
    let services = of_type(&template, "AWS::ECS::Service");
    assert_eq!(services.len(), WORKERS.len());
    assert_eq!(of_type(&template, "AWS::Lambda::EventSourceMapping").len(), 0);
    assert!(of_type(&template, "AWS::Lambda::Function").contains_key("Ingest"));
    for (worker, service) in WORKERS.iter().zip(services.keys().map(|id| id.trim_end_matches("Service"))) {
        assert!(!of_type(&template, "AWS::Lambda::Function").contains_key(service), "{}", worker.name);
    }
    let resources = &template["Resources"];
    for worker in &WORKERS {
        let task = of_type(&template, "AWS::ECS::TaskDefinition")
            .into_iter()
            .find(|(_, task)| task["Properties"]["ContainerDefinitions"][0]["Name"] == worker.name);
        let (task_id, task) = task.unwrap();
        let id = task_id.trim_end_matches("Task");
        let properties = &task["Properties"];
        assert_eq!(
            (&properties["Cpu"], &properties["Memory"], &properties["RuntimePlatform"]["CpuArchitecture"]),
            (&json!("256"), &json!("512"), &json!("ARM64"))
        );
        let container = &properties["ContainerDefinitions"][0];
        assert_eq!(
            (&container["Image"], &container["EntryPoint"]),
            (&json!({ "Ref": "Image" }), &json!([worker.name]))
        );
        // It has the variables and the permissions of the function.
        let variables =
            by_default["Resources"][id]["Properties"]["Environment"]["Variables"].as_object().unwrap();
        let text = container["Environment"].to_string();
        for name in variables.keys().map(String::as_str).chain(["AWS_REGION"]) {
            assert!(text.contains(&format!("{{\"Name\":\"{name}\"")), "{name} of {}", worker.name);
        }
        let (role, of_function) =
            (&resources[format!("{id}Role")], &by_default["Resources"][format!("{id}Role")]);
        assert_eq!(role["Properties"]["Policies"], of_function["Properties"]["Policies"], "{id}");
        let principal = &role["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"];
        assert_eq!(*principal, json!({ "Service": "ecs-tasks.amazonaws.com" }));
        let scaling = &resources[format!("{id}Scaling")]["Properties"];
        assert_eq!(
            (&scaling["MinCapacity"], &scaling["MaxCapacity"]),
            (&json!({ "Ref": "MinTasks" }), &json!({ "Ref": "MaxTasks" }))
        );
        let steps = |name: &str| {
            let policy = &resources[format!("{id}{name}")]["Properties"]["StepScalingPolicyConfiguration"];
            let steps = policy["StepAdjustments"].as_array().unwrap();
            steps.iter().map(|step| step["ScalingAdjustment"].as_i64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((steps("Grow"), steps("Shrink")), (vec![1, 4], vec![-1]));
        let alarm = &resources[format!("{id}GrowAlarm")]["Properties"];
        let queue = alarm["Dimensions"][0]["Value"]["Fn::GetAtt"][0].as_str().unwrap();
        let queue = resources[queue]["Properties"]["QueueName"].as_str().unwrap();
        assert_eq!(queue, format!("annalist-{}.fifo", worker.queue.label));
        for part in ["Role", "Service", "Scaling", "Grow", "Shrink", "GrowAlarm", "ShrinkAlarm", "Log"] {
            let condition = resources[format!("{id}{part}")].get("Condition");
            assert_eq!(condition, by_default["Resources"][id].get("Condition"), "{id}{part}");
        }
    }
    for parameter in ["Image", "Subnets", "SecurityGroups", "MinTasks", "MaxTasks"] {
        assert!(template["Parameters"][parameter].is_object(), "{parameter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_encrypts_everything_and_every_role_may_use_it() {
    let template = with_options(&["--deploy", "linear", "--workers", "fargate"]).await;
    let own_key = json!({ "Fn::If": ["HasKmsKeyArn", { "Ref": "KmsKeyArn" }, { "Ref": "AWS::NoValue" }] });
    for (kind, pointer) in [
        ("AWS::SQS::Queue", "/Properties/KmsMasterKeyId"),
        ("AWS::SNS::Topic", "/Properties/KmsMasterKeyId"),
        ("AWS::Logs::LogGroup", "/Properties/KmsKeyId"),
        (
            "AWS::S3::Bucket",
            "/Properties/BucketEncryption/ServerSideEncryptionConfiguration/0/ServerSideEncryptionByDefault/KMSMasterKeyID",
        ),
    ] {
        let resources = of_type(&template, kind);
        assert!(!resources.is_empty(), "{kind}");
        for (id, resource) in resources {
            assert_eq!(resource.pointer(pointer), Some(&own_key), "{id}");
        }
    }
    for (id, table) in of_type(&template, "AWS::DynamoDB::Table") {
        let encryption = &table["Properties"]["SSESpecification"]["Fn::If"][1];
        assert_eq!(encryption["KMSMasterKeyId"], json!({ "Ref": "KmsKeyArn" }), "{id}");
    }
    let roles = of_type(&template, "AWS::IAM::Role");
    let of_parts = roles.iter().filter(|(_, role)| role["Properties"]["Policies"].is_array());
    let policies = of_type(&template, "AWS::IAM::Policy");
    let use_of_key = &policies["UseOfKey"];
    assert_eq!(use_of_key["Condition"], "HasKmsKeyArn");
    let statement = &use_of_key["Properties"]["PolicyDocument"]["Statement"][0];
    assert_eq!(statement["Action"], json!(["kms:Decrypt", "kms:GenerateDataKey"]));
    let users = use_of_key["Properties"]["Roles"].to_string();
    let mut parts = 0;
    for (id, _) in of_parts {
        assert!(users.contains(&format!("{{\"Ref\":\"{id}\"}}")), "{id}");
        parts += 1;
    }
    assert!(parts > WORKERS.len(), "{parts}");
    let bucket = &of_type(&template, "AWS::S3::Bucket")["Bucket"]["Properties"];
    let rule = &bucket["LifecycleConfiguration"]["Rules"][2]["Fn::If"];
    assert_eq!(
        (&rule[0], &rule[1]["Transitions"][0]["StorageClass"]),
        (&json!("TiersFiles"), &json!("INTELLIGENT_TIERING"))
    );
}
