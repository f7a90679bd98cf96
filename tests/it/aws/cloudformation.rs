//! `annalist cloudformation`: the template describes what `provision` creates, and a linter for AWS templates
//! finds no fault.

mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use aws::provision::{Parts, ResourceChange, TAG, provision};
use aws_resources::names::Names;
use ports::queue::topology::{QUEUES, TABLES, TableRole};
use ports::workers::WorkerSpec;
use serde_json::{Map, Value, json};
use tests::harness::command::annalist_with;
use tests::harness::proxy::{ForwardedRequest, Proxy};
use tests::harness::python;
use tests::harness::stack::{Stack, fresh_names};

const REQUIREMENTS: &str = include_str!("cfn-lint.txt");
/// Regions with the same functions, alarms and pricing that differ otherwise.
const REGIONS: [&str; 3] = ["us-east-1", "eu-central-1", "ap-southeast-2"];

async fn printed(args: &[&str]) -> String {
    let outcome = annalist_with(&[&["cloudformation"], args].concat(), &[]).await;
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    outcome.stdout
}

/// The kinds of resources that `provision` creates too.
const MADE: [&str; 4] =
    ["AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::S3::BucketPolicy"];

/// The template, with the names of an installation. The resources that `provision` creates too are as with the
/// default of each parameter.
async fn template(names: &Names) -> Value {
    let [archive, existence, claims] =
        [TableRole::Archive, TableRole::Existence, TableRole::Claims].map(|role| names.table(role));
    let tables = ["--table", archive, "--existence-table", existence, "--claims-table", claims];
    let args = [&["--prefix", names.prefix(), "--bucket", names.bucket()][..], &tables].concat();
    let mut template: Value = serde_json::from_str(&printed(&args).await).unwrap();
    let parameters = template["Parameters"].clone();
    for resource in template["Resources"].as_object_mut().unwrap().values_mut() {
        if MADE.iter().any(|kind| resource["Type"] == *kind) {
            *resource = by_default(resource, &parameters).unwrap();
        }
    }
    template
}

/// A value with the default of each parameter; `None` if it is left out then.
fn by_default(value: &Value, parameters: &Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if let Some(branches) = map.get("Fn::If") {
                assert!(["HasKmsKeyArn", "TiersFiles"].iter().any(|name| branches[0] == *name), "{value}");
                return by_default(&branches[2], parameters);
            }
            if let Some(name) = map.get("Ref").and_then(Value::as_str) {
                let default = || parameters[name].get("Default").cloned().unwrap_or_else(|| value.clone());
                return (name != "AWS::NoValue").then(default);
            }
            let fields =
                map.iter().filter_map(|(key, value)| Some((key.clone(), by_default(value, parameters)?)));
            Some(fields.collect::<Map<String, Value>>().into())
        }
        Value::Array(values) => {
            Some(values.iter().filter_map(|value| by_default(value, parameters)).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

fn of_type<'a>(template: &'a Value, kind: &str) -> BTreeMap<&'a str, &'a Value> {
    let resources = template["Resources"].as_object().unwrap();
    let of_type = resources.iter().filter(|(_, resource)| resource["Type"] == kind);
    of_type.map(|(id, resource)| (id.as_str(), resource)).collect()
}

/// Every call with which `provision` creates something.
async fn requests(names: &Names) -> Vec<Value> {
    let stack = Stack::shared();
    let proxy = Proxy::in_front_of(stack.endpoint(), 0).await;
    proxy.record();
    let aws = stack.aws_at(&proxy.endpoint, names.clone()).await;
    provision(&aws, Parts::ALL, false, &mut |_| {}).await.unwrap();
    let changes = |passed: &ForwardedRequest| {
        let target = passed.target.as_deref().unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        (target.is_empty() && passed.method == "PUT")
            || ["Create", "Set", "Update", "Tag"].iter().any(|verb| operation.starts_with(verb))
    };
    let call = |passed: ForwardedRequest| {
        let ForwardedRequest { path, target, body, .. } = passed;
        // JSON objects have no order: parse the body to sort its keys.
        let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
        // `x-id` only identifies the operation for the SDK.
        let path = path.split("x-id=").next().unwrap_or_default().trim_end_matches(['?', '&']).to_owned();
        json!({ "path": path, "target": target, "body": body })
    };
    proxy.recorded().into_iter().filter(changes).map(call).collect()
}

fn is_for(request: &Value, operation: &str) -> bool {
    request["target"].as_str().is_some_and(|target| target.ends_with(&format!(".{operation}")))
}

/// The value as SQS writes an attribute.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn its_queues_are_those_that_provision_makes() {
    let names = fresh_names();
    let template = template(&names).await;
    let queues = of_type(&template, "AWS::SQS::Queue");
    let made: Vec<Value> =
        requests(&names).await.into_iter().filter(|call| is_for(call, "CreateQueue")).collect();
    assert_eq!((made.len(), queues.len()), (QUEUES.len() * 2, QUEUES.len() * 2));
    for call in made {
        let (name, attributes) =
            (&call["body"]["QueueName"], call["body"]["Attributes"].as_object().unwrap());
        let found = queues.values().find(|queue| queue["Properties"]["QueueName"] == *name).unwrap();
        let mut properties = found["Properties"].as_object().unwrap().clone();
        properties.remove("QueueName");
        assert_eq!(
            properties.remove("Tags").unwrap(),
            json!([{ "Key": "annalist", "Value": names.prefix() }])
        );
        assert_eq!(call["body"]["tags"], json!({ "annalist": names.prefix() }));
        assert_eq!(properties.keys().collect::<Vec<_>>(), attributes.keys().collect::<Vec<_>>(), "{name}");
        for (attribute, value) in attributes {
            let value = value.as_str().unwrap();
            if attribute != "RedrivePolicy" {
                assert_eq!(as_text(&properties[attribute]), value, "{attribute} of {name}");
                continue;
            }
            let (policy, made) = (&properties[attribute], serde_json::from_str::<Value>(value).unwrap());
            assert_eq!(policy["maxReceiveCount"], made["maxReceiveCount"]);
            let target = policy["deadLetterTargetArn"]["Fn::GetAtt"][0].as_str().unwrap();
            let target = queues[target]["Properties"]["QueueName"].as_str().unwrap();
            let arn = made["deadLetterTargetArn"].as_str().unwrap();
            assert_eq!(arn.rsplit(':').next(), Some(target));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_tables_are_those_that_provision_makes_and_they_outlive_the_stack() {
    let names = fresh_names();
    let (template, requests) = (template(&names).await, requests(&names).await);
    let tables = of_type(&template, "AWS::DynamoDB::Table");
    assert_eq!(tables.len(), TABLES.len());
    for table in tables.values() {
        let name = &table["Properties"]["TableName"];
        // The settings from all calls about the table.
        let mut made = Map::new();
        for call in requests.iter().filter(|call| call["body"]["TableName"] == *name) {
            made.extend(call["body"].as_object().unwrap().clone());
        }
        let mut properties = table["Properties"].as_object().unwrap().clone();
        // DynamoDB's own default.
        let class = properties.remove("TableClass");
        assert_eq!(class, (*name == names.table(TableRole::Archive)).then(|| json!("STANDARD")));
        assert_eq!(properties, made);
        assert_eq!(
            (&table["DeletionPolicy"], &table["UpdateReplacePolicy"]),
            (&json!("Retain"), &json!("Retain"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_bucket_is_the_one_that_provision_makes_and_it_outlives_the_stack() {
    let names = fresh_names();
    let template = template(&names).await;
    let buckets = of_type(&template, "AWS::S3::Bucket");
    let bucket = buckets["Bucket"];
    assert_eq!(
        (&bucket["DeletionPolicy"], &bucket["UpdateReplacePolicy"]),
        (&json!("Retain"), &json!("Retain"))
    );
    let calls: Vec<Value> =
        requests(&names).await.into_iter().filter(|call| call["target"].is_null()).collect();
    let body_of = |what: &str| -> String {
        let path = |call: &&Value| call["path"].as_str().unwrap().trim_end_matches('/').ends_with(what);
        let mut bodies = calls.iter().filter(path).map(|call| call["body"].as_str().unwrap().to_owned());
        bodies.next().unwrap_or_else(|| panic!("no call about {what}: {calls:?}"))
    };
    let properties = &bucket["Properties"];
    let mut settings: BTreeSet<&str> = properties.as_object().unwrap().keys().map(String::as_str).collect();
    let mut is = |property: &'static str, what: &str, pieces: &[String]| {
        let body = body_of(what);
        for piece in pieces {
            assert!(body.contains(piece), "{property}: {piece} is not in {body}");
        }
        settings.remove(property);
    };
    is("BucketName", &format!("/{}", names.bucket()), &[]);
    assert_eq!(properties["BucketName"], names.bucket());
    let tag = |part: &str| properties["Tags"][0][part].as_str().unwrap();
    is("Tags", "?tagging", &[format!("<Key>{}</Key><Value>{}</Value>", tag("Key"), tag("Value"))]);
    let default = &properties["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    let algorithm = default["ServerSideEncryptionByDefault"]["SSEAlgorithm"].as_str().unwrap();
    is("BucketEncryption", "?encryption", &[format!("<SSEAlgorithm>{algorithm}</SSEAlgorithm>")]);
    let block = properties["PublicAccessBlockConfiguration"].as_object().unwrap();
    let block: Vec<String> = block.iter().map(|(name, on)| format!("<{name}>{on}</{name}>")).collect();
    assert!(block.len() == 4 && block.iter().all(|setting| setting.contains(">true<")), "{block:?}");
    is("PublicAccessBlockConfiguration", "?publicAccessBlock", &block);
    let rule = &properties["LifecycleConfiguration"]["Rules"][0];
    let days = &rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"];
    let rule = [
        format!("<ID>{}</ID>", rule["Id"].as_str().unwrap()),
        format!("<Status>{}</Status>", rule["Status"].as_str().unwrap()),
        format!("<DaysAfterInitiation>{days}</DaysAfterInitiation>"),
    ];
    is("LifecycleConfiguration", "?lifecycle", &rule);
    // `provision` leaves versions to the operator.
    assert_eq!(properties["VersioningConfiguration"], json!({ "Status": "Enabled" }));
    let old = &properties["LifecycleConfiguration"]["Rules"][1];
    assert_eq!(old["NoncurrentVersionExpiration"], json!({ "NoncurrentDays": 35 }));
    settings.remove("VersioningConfiguration");
    assert_eq!(settings, BTreeSet::new());
    // The policy refers to the bucket with CloudFormation's functions.
    let policy = &template["Resources"]["BucketPolicy"];
    assert_eq!(
        (&policy["DeletionPolicy"], &policy["Properties"]["Bucket"]),
        (&json!("Retain"), &json!({ "Ref": "Bucket" }))
    );
    let arn = format!("arn:aws:s3:::{}", names.bucket());
    let mut document = policy["Properties"]["PolicyDocument"].clone();
    let resources = &mut document["Statement"][0]["Resource"];
    assert_eq!(*resources, json!([{ "Fn::GetAtt": ["Bucket", "Arn"] }, { "Fn::Sub": "${Bucket.Arn}/*" }]));
    *resources = json!([arn, format!("{arn}/*")]);
    let set = calls.iter().find(|call| call["path"].as_str().unwrap().ends_with("?policy")).unwrap();
    assert_eq!(set["body"], document);
    assert_eq!(calls.len(), 6, "{calls:?}");
}

/// Creates a CloudFormation stack and waits until it is complete; an error goes to standard error.
const DEPLOY: &str = r#"
import sys, time, urllib.error, urllib.parse, urllib.request
endpoint, name = sys.argv[1:]
def ask(**form):
    form = urllib.parse.urlencode(dict(form, StackName=name, Version="2010-05-15")).encode()
    sign = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/eu-central-1/cloudformation/aws4_request"}
    try: return urllib.request.urlopen(urllib.request.Request(endpoint, form, sign), timeout=30).read().decode()
    except urllib.error.HTTPError as refused: sys.exit(refused.read().decode())
ask(Action="CreateStack", TemplateBody=sys.stdin.read())
for _ in range(300):
    stack = ask(Action="DescribeStacks")
    if "_IN_PROGRESS" not in stack: break
    time.sleep(0.1)
sys.exit(None if "CREATE_COMPLETE" in stack else stack)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn provision_finds_little_to_do_after_an_emulator_deployed_the_template() {
    let (stack, names) = (Stack::shared(), fresh_names());
    let mut template = template(&names).await;
    // The resources that `provision` creates too; an emulator of three services has no functions.
    let resources = template["Resources"].as_object_mut().unwrap();
    resources.retain(|_, resource| MADE.iter().any(|kind| resource["Type"] == *kind));
    for rest in ["Parameters", "Rules", "Conditions", "Outputs"] {
        template.as_object_mut().unwrap().remove(rest);
    }
    let mut deploy = Command::new("python3")
        .args(["-c", DEPLOY, stack.endpoint(), names.prefix()])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    deploy.stdin.take().unwrap().write_all(template.to_string().as_bytes()).unwrap();
    let deployed = deploy.wait_with_output().unwrap();
    assert!(deployed.status.success(), "{}", String::from_utf8_lossy(&deployed.stderr));

    let aws = stack.aws_at(stack.endpoint(), names.clone()).await;
    // Emulators forget a bucket's tags, and then it seems to belong to another owner.
    let s3 = stack.s3().await;
    let tag = aws_sdk_s3::types::Tag::builder().key(TAG).value(names.prefix()).build().unwrap();
    let tags = aws_sdk_s3::types::Tagging::builder().tag_set(tag).build().unwrap();
    s3.put_bucket_tagging().bucket(names.bucket()).tagging(tags).send().await.unwrap();

    let mut steps = Vec::new();
    provision(&aws, Parts::ALL, true, &mut |step| steps.push(step.clone())).await.unwrap();
    assert_eq!(steps.len(), QUEUES.len() * 2 + TABLES.len() + 1);
    for step in steps {
        // Emulators forget these as well; another test checks that the template contains them.
        let forgotten = match &step.change {
            ResourceChange::Keep => true,
            ResourceChange::Create => false,
            ResourceChange::Differs(settings) => settings.iter().all(|setting| {
                ["DeletionProtectionEnabled", "PointInTimeRecovery", "TimeToLive", "LifecycleConfiguration"]
                    .contains(&setting.as_str())
            }),
        };
        assert!(forgotten, "{step} ({:?})", step.change);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_reaches_ingest_and_every_queue_with_a_worker_wakes_it() {
    let template = template(&Names::new("annalist", [None; 3], "annalist-files").unwrap()).await;
    let permissions: Vec<&Value> = of_type(&template, "AWS::Lambda::Permission").into_values().collect();
    let public: Vec<(&Value, &Value, &Value)> = permissions
        .iter()
        .map(|permission| &permission["Properties"])
        .filter(|permission| permission["Principal"] == "*")
        .map(|it| (&it["Action"], &it["FunctionUrlAuthType"], &it["InvokedViaFunctionUrl"]))
        .collect();
    let null = &Value::Null;
    assert_eq!(
        public,
        [
            (&json!("lambda:InvokeFunction"), null, &json!(true)),
            (&json!("lambda:InvokeFunctionUrl"), &json!("NONE"), null),
        ]
    );
    let mappings = of_type(&template, "AWS::Lambda::EventSourceMapping");
    let queues = of_type(&template, "AWS::SQS::Queue");
    let functions = of_type(&template, "AWS::Lambda::Function");
    let mut woken = BTreeSet::new();
    for mapping in mappings.values() {
        let properties = &mapping["Properties"];
        assert_eq!(properties["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
        let queue = queues[properties["EventSourceArn"]["Fn::GetAtt"][0].as_str().unwrap()];
        let function = functions[properties["FunctionName"]["Ref"].as_str().unwrap()];
        // Lambda refuses a visibility timeout below the function's timeout; AWS recommends six times that.
        let visibility_s = queue["Properties"]["VisibilityTimeout"].as_u64().unwrap();
        assert!(visibility_s >= 6 * function["Properties"]["Timeout"].as_u64().unwrap());
        let artifact = function["Properties"]["Code"]["S3Key"]["Fn::Sub"].as_str().unwrap();
        // A workspace's directory has a function for itself.
        let batch = if artifact == "${CodePrefix}directory.zip" { 1 } else { 10 };
        assert_eq!(properties["BatchSize"], batch);
        woken.insert((queue["Properties"]["QueueName"].as_str().unwrap().to_owned(), artifact.to_owned()));
    }
    let expected = QUEUES.iter().map(|spec| {
        let artifact = format!("${{CodePrefix}}{}.zip", WorkerSpec::for_queue(spec.name).name);
        (format!("annalist-{}.fifo", spec.label), artifact)
    });
    assert_eq!(woken, expected.collect());
    // A mapping polls its queue all month, so dead-letter queues have none: a rule makes each worker poll
    // on its schedule.
    let rules = of_type(&template, "AWS::Events::Rule");
    let polled: BTreeSet<&str> = rules
        .values()
        .filter(|rule| rule["Properties"]["Targets"][0]["Input"] == "{\"annalist\":\"dead-letters\"}")
        .filter_map(|rule| rule["Properties"]["Targets"][0]["Arn"]["Fn::GetAtt"][0].as_str())
        .collect();
    let workers =
        mappings.values().filter_map(|mapping| mapping["Properties"]["FunctionName"]["Ref"].as_str());
    assert_eq!(polled, workers.collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_permits_only_named_actions_and_resources() {
    let template = template(&Names::new("annalist", [None; 3], "annalist-files").unwrap()).await;
    let roles = of_type(&template, "AWS::IAM::Role");
    assert_eq!(roles.len(), of_type(&template, "AWS::Lambda::Function").len());
    for (id, role) in roles {
        let policies = role["Properties"]["Policies"].as_array().unwrap();
        let statements = policies[0]["PolicyDocument"]["Statement"].as_array().unwrap();
        assert!(policies.len() == 1 && statements.len() >= 3, "{id}");
        for statement in statements {
            let statement = statement.get("Fn::If").map_or(statement, |parts| &parts[1]);
            for action in statement["Action"].as_array().unwrap() {
                assert!(!action.as_str().unwrap().contains('*'), "{id}: {action}");
            }
            if statement["Resource"] == json!({ "Fn::Split": [",", { "Ref": "BotTokenArn" }] }) {
                assert_eq!(statement["Action"], json!(["secretsmanager:GetSecretValue"]));
                continue;
            }
            for resource in statement["Resource"].as_array().unwrap() {
                assert!(resource.is_object(), "{id}: {resource}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bot_tokens_may_be_in_several_secrets_which_their_readers_may_read() {
    let template = template(&Names::new("annalist", [None; 3], "annalist-files").unwrap()).await;
    let secret = |name: &str| {
        format!("arn:aws:secretsmanager:eu-central-1:123456789012:secret:annalist/{name}-a1B2c3")
    };
    let (one, two) = (secret("one"), [secret("one"), secret("two")].join(","));
    let ten = vec![one.clone(); 10].join(",");
    for (parameter, value, is_allowed) in [
        ("BotTokenArn", "", true),
        ("BotTokenArn", &one, true),
        ("BotTokenArn", &two, true),
        ("BotTokenArn", &ten, true),
        ("BotTokenArn", &format!("{ten},{one}"), false),
        ("BotTokenArn", &two.replace(',', ", "), false),
        ("BotTokenArn", &format!("{one},"), false),
        ("BotTokenArn", "xoxb-1", false),
        ("SigningSecretArn", &one, true),
        ("SigningSecretArn", &two, false),
    ] {
        let pattern = template["Parameters"][parameter]["AllowedPattern"].as_str().unwrap();
        let script = "import re, sys; sys.exit(not re.search(sys.argv[1], sys.argv[2]))";
        let matched = Command::new("python3").args(["-c", script, pattern, value]).status().unwrap();
        assert_eq!(matched.success(), is_allowed, "{parameter} = {value:?}");
    }
    let readers = template["Resources"].as_object().unwrap().iter().filter(|(_, resource)| {
        resource["Type"] == "AWS::IAM::Role"
            && resource.to_string().contains(r#""Fn::Split":[",",{"Ref":"BotTokenArn"}]"#)
    });
    let given = template["Resources"].as_object().unwrap().iter().filter(|(_, resource)| {
        !resource["Properties"]["Environment"]["Variables"]["SLACK_BOT_TOKEN_ARN"].is_null()
    });
    assert!(readers.clone().count() > 1);
    assert_eq!(readers.count(), given.count(), "those that are given the secrets may read them");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_linter_finds_no_fault() {
    let python = python::environment("cfn-lint", REQUIREMENTS).unwrap_or_else(|why| {
        panic!("cfn-lint cannot be installed: {why}\nInstall Python 3.11 or newer with venv and pip (Debian: apt install python3-venv)")
    });
    let long = "x".repeat(60);
    let all_long = ["--bucket", &long, "--prefix", &long, "--table", &long];
    let (short, linear, fargate) =
        (["--bucket", "annalist-files"], ["--deploy", "linear"], ["--workers", "fargate"]);
    for args in [
        short.to_vec(),
        all_long.to_vec(),
        [short, linear].concat(),
        [short, fargate].concat(),
        [&all_long[..], &linear, &fargate].concat(),
    ] {
        let template = printed(&args).await;
        let mut linter = Command::new(python.with_file_name("cfn-lint"))
            .args(["--non-zero-exit-code", "informational", "--include-checks", "I", "--regions"])
            .args(REGIONS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        linter.stdin.take().unwrap().write_all(template.as_bytes()).unwrap();
        let output = linter.wait_with_output().unwrap();
        let findings =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && findings.trim().is_empty(), "{args:?}: {findings}");
    }
}

#[tokio::test]
async fn without_a_bucket_the_error_names_the_setting() {
    annalist_with(&["cloudformation"], &[]).await.assert_refused(2, "ANNALIST_BUCKET");
}
