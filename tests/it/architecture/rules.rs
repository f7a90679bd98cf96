//! The table of rules.

use super::Rule;

const EVERYWHERE: &[&str] =
    &["cli/", "ingest/", "reader/", "search/", "shared/", "tests/", "viewer/", "workers/"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        paths: &["ingest/"],
        except: &[],
        forbidden: &["archive", "Archive"],
        tests_too: true,
        why: "ingest responds as soon as the queue has the event: without access to the archive, it cannot \
              be slowed down or stopped by one",
        example: "use ports::archive::{Archive, ArchiveExt};",
    },
    Rule {
        paths: &[
            "shared/aws-resources/src/",
            "shared/ports/src/",
            "shared/rules/src/",
            "shared/slack/src/",
            "shared/fake-slack/src/",
        ],
        except: &[],
        forbidden: &["std::fs", "std::net", "std::io", "std::process", "std::thread"],
        tests_too: false,
        why: "these packages are functions, keys and contracts: only backends and processes do I/O or wait",
        example: "let text = std::fs::read_to_string(path)?;",
    },
    Rule {
        paths: &["shared/rules/src/"],
        except: &[],
        forbidden: &["async", "await", "Clock", "SharedClock"],
        tests_too: false,
        why: "the rules are functions of their arguments: convergence is proven by running them on every \
              order of events, which is only a proof while they have no other input or output",
        example: "async fn fold(clock: SharedClock) {}",
    },
    Rule {
        paths: &[
            "reader/src/",
            "search/src/",
            "viewer/src/",
            "cli/src/api/",
            "cli/src/mcp/",
            "cli/src/read/",
            "cli/src/view.rs",
        ],
        // It implements the port, and refuses every write.
        except: &["reader/src/access/visible.rs"],
        forbidden: &[
            ".write(",
            ".write_all(",
            ".send(",
            ".ack(",
            "Update",
            "Queue",
            "apply_once",
            "delete_unchanged",
            ".erase(",
        ],
        tests_too: false,
        why: "code that only reads is safe to run at any time, on a folder that is in use: it cannot change \
              anything",
        example: "archive.write(&Update::mark(key)).await?;",
    },
    Rule {
        paths: EVERYWHERE,
        except: &[
            "shared/ports/src/archive/",
            "shared/aws/src/archive/",
            "shared/aws/src/changes/",
            "shared/embedded/src/archive.rs",
            "reader/src/access/visible.rs",
            "reader/src/access/visible_tests.rs",
            "tests/testkit/src/conformance/",
            "tests/testkit/src/faults/",
            "tests/testkit/src/memory/",
            "tests/simulation/src/checked_archive.rs",
            "workers/src/store/preview.rs",
        ],
        forbidden: &["apply_once"],
        tests_too: true,
        why: "a write that does not settle loses the set-if-absent attributes of an update whose register \
              lost: all code except backends and test doubles writes through ArchiveExt",
        example: "archive.apply_once(&[&update]).await;",
    },
    Rule {
        paths: &["viewer/src/pages/"],
        except: &[],
        forbidden: &["async", "await", "Archive", "axum", "tokio", "handlers", "ServedLinks"],
        tests_too: true,
        why: "a page is a function from rows to HTML: the server and the HTML export show the same",
        example: "async fn page(archive: &dyn Archive) -> Markup {}",
    },
    Rule {
        paths: &["reader/src/"],
        except: &[],
        forbidden: &["println!", "print!", "std::io", "std::fs"],
        tests_too: true,
        why: "pages, exports and the command line use the reader: it returns values, and each of them \
              formats these itself",
        example: "println!(\"{row}\");",
    },
    Rule {
        paths: &["shared/aws/src/", "shared/embedded/src/", "shared/s3/src/"],
        except: &[],
        forbidden: &["rules::", "slack::event", "slack::envelope", "key::messages"],
        tests_too: false,
        why: "a backend stores queues, items and bytes: if it knew what a message is, each backend would \
              have its own rules",
        example: "use rules::message::content;",
    },
    Rule {
        paths: &["tests/"],
        except: &[
            "tests/bench/src/bin/bench/aws/",
            "tests/src/harness/environment.rs",
            "tests/src/harness/lambda/",
            "tests/src/harness/stack/",
            "tests/it/aws/",
            "tests/it/lambda/",
        ],
        forbidden: &["aws_sdk_*", "aws_config", "aws_smithy_*"],
        tests_too: true,
        why: "the SDK's types end at the ports: code that names them elsewhere would work on one backend \
              only",
        example: "let client = aws_sdk_sqs::Client::new(&config);",
    },
    Rule {
        paths: &["shared/process/src/telemetry/alerts.rs", "shared/process/src/telemetry/dashboard.rs"],
        except: &[],
        forbidden: &["async", "await", "tokio", "std::fs", "counter!", "gauge!", "histogram!"],
        tests_too: true,
        why: "alerts and dashboards are generated from the table of metrics alone, so they only name metrics \
              that exist",
        example: "std::fs::read_to_string(\"dashboard.json\");",
    },
    Rule {
        paths: &["workers/src/quarantine/redaction.rs"],
        except: &[],
        forbidden: &["async", "await", "Archive", "Queue", "tracing"],
        tests_too: true,
        why: "redaction is a function of the job: examples show that it leaves no secret",
        example: "async fn shown(archive: &dyn Archive) {}",
    },
    Rule {
        paths: &["workers/src/"],
        except: &[],
        forbidden: &["aws", "aws_*"],
        tests_too: true,
        why: "a worker receives its ports as arguments: the same worker runs on one machine and in a fleet",
        example: "let queue = aws::Aws::connect(names).await?.queue();",
    },
    Rule {
        paths: &["workers/src/admission/"],
        // It compares the entities that an event writes with those that are checked.
        except: &["workers/src/admission/entities_properties.rs"],
        forbidden: &[
            "Queue",
            "Worker",
            "JobOutcome",
            "Delivery",
            "changes()",
            "message_writer",
            "channel_indexer",
        ],
        tests_too: true,
        why: "admission decides what may be stored, by the rule that its caller passes: the worker decides what \
              is written and how a job ends",
        example: "fn judge(job: &Delivery) -> Outcome {}",
    },
    Rule {
        paths: &["workers/src/claims/"],
        except: &[],
        forbidden: &["archive", "Archive", "queue", "Queue", "slack", "rules", "runtime", "file_downloader"],
        tests_too: true,
        why: "a claim is a key and a time: only its worker knows what is claimed and what completion means",
        example: "use ports::archive::Archive;",
    },
    Rule {
        paths: &["cli/", "ingest/", "workers/"],
        // The transport of the Model Context Protocol is another one.
        except: &["cli/src/mcp/", "workers/tests/"],
        forbidden: &["Transport", "with_transport"],
        tests_too: true,
        why: "slack-api holds the tokens and chooses the transport for them: only a test on virtual time \
              replaces it",
        example: "let api = WebApi::with_transport(transport, url, tokens);",
    },
    Rule {
        paths: &["tests/simulation/src/"],
        except: &["tests/simulation/src/bin/", "tests/simulation/src/seeds.rs"],
        forbidden: &[
            "std::time::Instant",
            "std::thread",
            "tokio::net",
            "spawn_blocking",
            "HashMap",
            "HashSet",
            "fastrand::u64",
            "fastrand::Rng::new",
        ],
        tests_too: true,
        why: "a seed must reproduce the same run: real time, threads, sockets and maps in random order would \
              each make runs differ",
        example: "let leases: HashMap<u64, u64> = HashMap::new();",
    },
    Rule {
        paths: &["workers/src/responder/"],
        except: &[],
        forbidden: &["WebApi", "slack_api", "Token"],
        tests_too: true,
        why: "the responder asks a processor and writes rows; only the poster, which runs no processor, can \
              post",
        example: "let web: Arc<WebApi> = environment.web.clone();",
    },
    Rule {
        paths: &["shared/slack-api/src/probe.rs"],
        except: &[],
        forbidden: &["Token", "Tokens", "TokenKind", "WebApi", "bearer_auth", "basic_auth", "AUTHORIZATION"],
        tests_too: true,
        why: "the probe calls addresses that a user typed: code without access to a token cannot leak one",
        example: "let request = client.post(url).bearer_auth(token);",
    },
    Rule {
        paths: &[
            "cli/src/operate/doctor/setup.rs",
            "cli/src/operate/doctor/arrival.rs",
            "cli/src/operate/doctor/keeping.rs",
            "cli/src/operate/doctor/responder.rs",
        ],
        except: &[],
        forbidden: &["async", "await", "tokio", "std::fs", "Clock", "Archive", "Queue", "Backend"],
        tests_too: true,
        why: "a finding is a function of the facts: a table can test the finding for each fault without \
              causing the fault",
        example: "async fn judge(archive: &dyn Archive) {}",
    },
    Rule {
        paths: &["cli/src/operate/doctor/"],
        except: &[],
        forbidden: &[".write(", ".send(", ".ack(", "delete_unchanged", ".erase(", "Update", "Backend::open("],
        tests_too: false,
        why: "a search for a fault must not cause another: the doctor changes nothing",
        example: "archive.write(&update).await?;",
    },
    Rule {
        paths: EVERYWHERE,
        except: &["shared/slack/src/", "shared/slack-api/src/", "shared/processor/src/", "shared/oidc/src/"],
        forbidden: &["expose_secret", "ExposeSecret"],
        tests_too: true,
        why: "a secret is only exposed where it is used: for the signature and the bearer header",
        example: "let token = token.expose_secret();",
    },
    Rule {
        paths: EVERYWHERE,
        except: &["shared/slack-api/src/", "shared/processor/src/", "shared/oidc/src/"],
        forbidden: &["reqwest::"],
        tests_too: true,
        why: "each of these clients has its own hosts and its own secret: no other code calls another machine",
        example: "let client = reqwest::Client::new();",
    },
    Rule {
        paths: &["cli/src/export/"],
        except: &[],
        forbidden: &["ArchiveExt", "Update", "Queue", "delete_unchanged", ".erase(", ".create(&"],
        tests_too: false,
        why: "an export writes only the user's files: it can only read the archive and the archive's files",
        example: "use ports::archive::ArchiveExt;",
    },
    Rule {
        paths: EVERYWHERE,
        except: &["cli/src/mcp/", "tests/it/mcp.rs"],
        forbidden: &["rmcp"],
        tests_too: true,
        why: "MCP changes every year and is only one more front end: the answers come from the reader, which \
              knows no protocol",
        example: "use rmcp::ServerHandler;",
    },
    Rule {
        paths: EVERYWHERE,
        except: &["shared/slack-api/src/socket.rs", "tests/testkit/src/fake_socket.rs"],
        forbidden: &["tokio_tungstenite"],
        tests_too: true,
        why: "slack-api holds the tokens and the ticket of a socket, and opens connections only to Slack's hosts",
        example: "use tokio_tungstenite::WebSocketStream;",
    },
    Rule {
        paths: EVERYWHERE,
        except: &["cli/src/operate/"],
        forbidden: &["tar"],
        tests_too: true,
        why: "the contents of a backup and its packing change for different reasons, and reading an \
              untrusted tar takes care: one module does it",
        example: "let tar = tar::Builder::new(file);",
    },
    Rule {
        paths: EVERYWHERE,
        except: &[
            "cli/src/export/slack/zipped.rs",
            "cli/src/operate/import/zipped.rs",
            "tests/bench/src/bin/bench/import/",
            "tests/it/import/",
        ],
        forbidden: &["zip::"],
        tests_too: true,
        why: "an untrusted zip needs limits on its contents: one module has them, and the format of an \
              export does not depend on the zip",
        example: "let archive = zip::ZipArchive::new(file)?;",
    },
    Rule {
        paths: &["workers/src/import/"],
        except: &[],
        forbidden: &["std::fs", "std::path", "tokio::fs"],
        tests_too: true,
        why: "a name in an export is not a path: code without access to paths cannot follow one",
        example: "let day = std::fs::File::open(name)?;",
    },
    Rule {
        paths: &["cli/src/"],
        except: &["cli/src/demo/", "cli/src/operate/"],
        forbidden: &["embedded::"],
        tests_too: false,
        why: "commands work on any backend through the ports; only a backup and the demo belong to one \
              folder",
        example: "let database = embedded::Database::open(folder, clock)?;",
    },
    Rule {
        paths: &["cli/src/", "viewer/src/", "workers/src/", "reader/src/", "search/src/"],
        except: &["cli/src/operate/backup.rs", "cli/src/operate/copy/files.rs"],
        forbidden: &["Inventory::new", "FILES_FOLDER"],
        tests_too: false,
        why: "the bytes of files may be in a bucket: only what copies the data folder itself opens them by a path",
        example: "for file in Inventory::new(data) {",
    },
    Rule {
        paths: EVERYWHERE,
        except: &["shared/process/src/config/", "tests/src/harness/", "workers/fleet/src/args/"],
        forbidden: &["(env =", ", env ="],
        tests_too: true,
        why: "settings are read in two modules, those of a process and those of the workers, so their list is complete",
        example: "#[arg(long, env = \"ANNALIST_DATA\")]",
    },
    Rule {
        paths: EVERYWHERE,
        except: &[],
        forbidden: &["PreEscaped"],
        tests_too: true,
        why: "a page shows untrusted data: all of it is escaped, and no code can opt out",
        example: "html! { (PreEscaped(text)) }",
    },
    Rule {
        paths: &["shared/slack-api/tests/", "tests/it/", "workers/tests/"],
        except: &[
            ON_VIRTUAL_TIME[0],
            ON_VIRTUAL_TIME[1],
            AT_RANDOM_MOMENTS[0],
            AT_RANDOM_MOMENTS[1],
            AT_RANDOM_MOMENTS[2],
            AT_RANDOM_MOMENTS[3],
        ],
        forbidden: &["sleep", "sleep_until", "sleep_ms"],
        tests_too: true,
        why: "a test that sleeps is slow when it passes and fails on a busy machine: wait for the signal \
              itself",
        example: "tokio::time::sleep(Duration::from_secs(1)).await;",
    },
];

/// Tests on a paused runtime: timers are exact and cost nothing, since sleeping only advances the clock.
pub(super) const ON_VIRTUAL_TIME: [&str; 2] = ["tests/it/aws/idle.rs", "workers/tests/it/runtime/"];

/// Tests that kill at random moments: they test the moment itself, so there is no signal to wait for.
const AT_RANDOM_MOMENTS: [&str; 4] =
    ["tests/it/aws/crash.rs", "tests/it/crash.rs", "tests/it/backfill/killed.rs", "tests/it/publish.rs"];
