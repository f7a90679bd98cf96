//! Workers as services of containers, with as many tasks as their queues need.

use serde_json::{Map, Value, json};

use super::functions::{self, TemplateFunction};
use super::{Resources, attribute_of, parameters, queues, reference, roles};
use crate::names::Names;

/// The service that assumes the roles of containers.
pub(super) const SERVICE: &str = "ecs-tasks.amazonaws.com";

const CLUSTER: &str = "Cluster";
/// The role with which tasks start: it pulls the image and writes the logs.
const START_ROLE: &str = "TaskStartRole";

const IMAGE: &str = "Image";
const SUBNETS: &str = "Subnets";
const SECURITY_GROUPS: &str = "SecurityGroups";
const MIN_TASKS: &str = "MinTasks";
const MAX_TASKS: &str = "MaxTasks";

/// A queue with more messages than this gets one task more each minute.
const LONG: u32 = 1_000;
/// And with more than this, four.
const VERY_LONG: u32 = 10_000;
/// How long a task may finish its work: Fargate's maximum.
/// <https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_definition_parameters.html>
const STOP_S: u32 = 120;

/// The parameters of containers, if there are any.
pub(super) fn parameters(containers: &[TemplateFunction]) -> Map<String, Value> {
    let number = |default: u32, min: u32, what: &str| json!({ "Type": "Number", "Default": default, "MinValue": min, "MaxValue": 100, "Description": what });
    let parameters = [
        (IMAGE, json!({ "Type": "String", "Description": "The image of the workers, with its version" })),
        (
            SUBNETS,
            json!({
                "Type": "List<AWS::EC2::Subnet::Id>",
                "Description": "The subnets of the workers, from which they reach the internet",
            }),
        ),
        (
            SECURITY_GROUPS,
            json!({
                "Type": "List<AWS::EC2::SecurityGroup::Id>",
                "Description": "The security groups of the workers, which need no way in",
            }),
        ),
        (MIN_TASKS, number(1, 0, "How many tasks of each worker run at least")),
        (MAX_TASKS, number(10, 1, "How many tasks of each worker run at most")),
    ];
    let parameters = parameters.into_iter().filter(|_| !containers.is_empty());
    parameters.map(|(name, parameter)| (name.to_owned(), parameter)).collect()
}

pub(super) fn resources(names: &Names, containers: &[TemplateFunction]) -> Resources {
    if containers.is_empty() {
        return Vec::new();
    }
    let role = json!({
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": roles::trust_in(SERVICE),
            "ManagedPolicyArns": [
                { "Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy" },
            ],
        },
    });
    let shared =
        [(CLUSTER.to_owned(), json!({ "Type": "AWS::ECS::Cluster" })), (START_ROLE.to_owned(), role)];
    shared.into_iter().chain(containers.iter().flat_map(|worker| of_worker(names, worker))).collect()
}

fn of_worker(names: &Names, worker: &TemplateFunction) -> Resources {
    let id = worker.id();
    let (task, service, target) = (format!("{id}Task"), format!("{id}Service"), format!("{id}Scaling"));
    let service_resource = json!({
        "Type": "AWS::ECS::Service",
        "Properties": {
            "Cluster": reference(CLUSTER),
            "TaskDefinition": reference(&task),
            "LaunchType": "FARGATE",
            "NetworkConfiguration": {
                "AwsvpcConfiguration": {
                    "Subnets": reference(SUBNETS),
                    "SecurityGroups": reference(SECURITY_GROUPS),
                    // Required in a public subnet, without effect behind a NAT gateway.
                    "AssignPublicIp": "ENABLED",
                },
            },
            // A version that does not start goes back to the last one.
            "DeploymentConfiguration": { "DeploymentCircuitBreaker": { "Enable": true, "Rollback": true } },
        },
    });
    let scaling = json!({
        "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
        "Properties": {
            "ServiceNamespace": "ecs",
            "ScalableDimension": "ecs:service:DesiredCount",
            "ResourceId": { "Fn::Sub": format!("service/${{{CLUSTER}}}/${{{service}.Name}}") },
            "MinCapacity": reference(MIN_TASKS),
            "MaxCapacity": reference(MAX_TASKS),
        },
    });
    let mut resources =
        vec![(task, task_definition(names, worker)), (service, service_resource), (target.clone(), scaling)];
    let beyond = VERY_LONG - LONG;
    let grow = json!([
        { "MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": beyond, "ScalingAdjustment": 1 },
        { "MetricIntervalLowerBound": beyond, "ScalingAdjustment": 4 },
    ]);
    let shrink = json!([{ "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1 }]);
    let is_long = json!({
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": LONG,
        "Period": 60,
        "EvaluationPeriods": 1,
    });
    // Empty for 15 minutes.
    let is_empty = json!({
        "ComparisonOperator": "LessThanOrEqualToThreshold",
        "Threshold": 0,
        "Period": 300,
        "EvaluationPeriods": 3,
    });
    for (name, steps, when) in [("Grow", grow, is_long), ("Shrink", shrink, is_empty)] {
        let policy_id = format!("{id}{name}");
        let policy = json!({
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": policy_id,
                "PolicyType": "StepScaling",
                "ScalingTargetId": reference(&target),
                "StepScalingPolicyConfiguration": {
                    "AdjustmentType": "ChangeInCapacity",
                    "Cooldown": 60,
                    "MetricAggregationType": "Maximum",
                    "StepAdjustments": steps,
                },
            },
        });
        resources
            .extend([(format!("{policy_id}Alarm"), alarm(worker, when, &policy_id)), (policy_id, policy)]);
    }
    for (_, resource) in &mut resources {
        parameters::only_if(resource, worker.condition());
    }
    resources
}

/// An alarm that changes the number of tasks.
fn alarm(worker: &TemplateFunction, mut properties: Value, policy_id: &str) -> Value {
    let queue = worker.worker().map(|worker| queues::id(worker.queue.name.into())).unwrap_or_default();
    properties["AlarmDescription"] =
        format!("Not for people: changes the number of tasks of {}", worker.part.label()).into();
    properties["Namespace"] = "AWS/SQS".into();
    properties["MetricName"] = "ApproximateNumberOfMessagesVisible".into();
    properties["Dimensions"] = json!([{ "Name": "QueueName", "Value": attribute_of(&queue, "QueueName") }]);
    properties["Statistic"] = "Maximum".into();
    // SQS reports nothing about a queue that has been inactive for hours.
    properties["TreatMissingData"] = "ignore".into();
    properties["AlarmActions"] = json!([reference(policy_id)]);
    json!({ "Type": "AWS::CloudWatch::Alarm", "Properties": properties })
}

fn task_definition(names: &Names, worker: &TemplateFunction) -> Value {
    let label = worker.part.label();
    let region = reference("AWS::Region");
    let variables =
        functions::environment(names, worker).into_iter().map(|(name, value)| variable(&name, value));
    let variables: Vec<Value> = variables.chain([variable("AWS_REGION", region.clone())]).collect();
    json!({
        "Type": "AWS::ECS::TaskDefinition",
        "Properties": {
            "Family": format!("{}-{label}", names.prefix()),
            "RequiresCompatibilities": ["FARGATE"],
            "NetworkMode": "awsvpc",
            "RuntimePlatform": { "CpuArchitecture": "ARM64", "OperatingSystemFamily": "LINUX" },
            "Cpu": "256",
            "Memory": "512",
            "ExecutionRoleArn": attribute_of(START_ROLE, "Arn"),
            "TaskRoleArn": attribute_of(&worker.role_id(), "Arn"),
            "ContainerDefinitions": [{
                "Name": label,
                "Image": reference(IMAGE),
                "Essential": true,
                // The image's own command is `annalist up`.
                "EntryPoint": [worker.artifact],
                "Command": ["--backend", "aws"],
                "Environment": variables,
                "StopTimeout": STOP_S,
                "LogConfiguration": {
                    "LogDriver": "awslogs",
                    "Options": {
                        "awslogs-group": reference(&worker.log_id()),
                        "awslogs-region": region,
                        "awslogs-stream-prefix": label,
                    },
                },
            }],
        },
    })
}

/// A variable. One whose value is conditional is left out as a whole.
fn variable(name: &str, value: Value) -> Value {
    let entry = |value: &Value| json!({ "Name": name, "Value": value });
    let Some([condition, holds, otherwise]) = value["Fn::If"].as_array().map(Vec::as_slice) else {
        return entry(&value);
    };
    let branch = |value: &Value| if *value == parameters::no_value() { value.clone() } else { entry(value) };
    json!({ "Fn::If": [condition, branch(holds), branch(otherwise)] })
}
