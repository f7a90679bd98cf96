//! The rules, as a table.

/// What the code of some rooms may not name.
pub(super) struct Rule {
    /// Files whose paths start with one of these.
    pub(super) rooms: &'static [&'static str],
    /// Files among them that are free to.
    pub(super) except: &'static [&'static str],
    /// Whole identifiers or pieces of code; `*` at the end stands for the rest of an identifier.
    pub(super) forbidden: &'static [&'static str],
    /// Whether unit tests beside the code are held to it too.
    pub(super) tests_too: bool,
    /// Why the rule exists.
    pub(super) why: &'static str,
    /// A line that breaks it.
    pub(super) example: &'static str,
}

const EVERYWHERE: &[&str] =
    &["cli/", "ingest/", "reader/", "search/", "shared/", "tests/", "viewer/", "workers/"];

/// The table.
pub(super) const RULES: &[Rule] = &[
    Rule {
        rooms: &["ingest/src/"],
        except: &[],
        forbidden: &["archive", "Archive"],
        tests_too: true,
        why: "ingest answers as soon as the queue has the event: it knows no archive, so that none can slow it \
              down or stop it",
        example: "use ports::archive::{Archive, ArchiveExt};",
    },
    Rule {
        rooms: &[
            "shared/aws-template/src/",
            "shared/ports/src/",
            "shared/rules/src/",
            "shared/slack/src/",
            "tests/fake-slack/src/",
        ],
        except: &[],
        forbidden: &["std::fs", "std::net", "std::io", "std::process", "std::thread"],
        tests_too: false,
        why: "they are functions, keys and contracts: what reads or waits is a backend or a process",
        example: "let text = std::fs::read_to_string(path)?;",
    },
    Rule {
        rooms: &["shared/rules/src/"],
        except: &[],
        forbidden: &["async", "await", "Clock", "SharedClock"],
        tests_too: false,
        why: "the rules are functions of their arguments: convergence is proven by running them on every order of \
              events, which only holds while nothing else goes in or out",
        example: "async fn fold(clock: SharedClock) {}",
    },
    Rule {
        rooms: &["reader/src/", "search/src/", "viewer/src/", "cli/src/view.rs"],
        except: &[],
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
        why: "what only reads is safe to ask at any time, on a folder that is in use",
        example: "archive.write(&Update::mark(key)).await?;",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &[
            "shared/ports/src/archive/",
            "shared/aws/src/archive/",
            "shared/aws/src/changes/",
            "shared/embedded/src/archive.rs",
            "tests/testkit/src/conformance/",
            "tests/testkit/src/faults/",
            "tests/testkit/src/memory/",
            "tests/simulation/src/checked_archive.rs",
            "tests/it/convergence/mod.rs",
            "workers/src/store/preview.rs",
            "workers/tests/it/directory/fixture.rs",
        ],
        forbidden: &["apply_once"],
        tests_too: true,
        why: "a write that does not settle loses the set-if-absent attributes of an update whose register lost: \
              everyone but backends and doubles writes by ArchiveExt",
        example: "archive.apply_once(&[&update]).await;",
    },
    Rule {
        rooms: &["viewer/src/pages/"],
        except: &[],
        forbidden: &["async", "await", "Archive", "axum", "tokio", "handlers", "ServedLinks"],
        tests_too: true,
        why: "a page is a function from what was read to HTML: what serves pages and what writes them to files show the same",
        example: "async fn page(archive: &dyn Archive) -> Markup {}",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &["viewer/"],
        forbidden: &["maud"],
        tests_too: true,
        why: "one place makes HTML, and there every text is escaped",
        example: "use maud::html;",
    },
    Rule {
        rooms: &["reader/src/"],
        except: &[],
        forbidden: &["clap", "println!", "print!", "std::io", "std::fs", "process::"],
        tests_too: true,
        why: "pages, exports and the command line stand on it: it answers values, and each of them shows these in its way",
        example: "println!(\"{row}\");",
    },
    Rule {
        rooms: &["shared/aws/src/", "shared/embedded/src/"],
        except: &[],
        forbidden: &["rules::", "slack::event", "slack::envelope", "key::messages"],
        tests_too: false,
        why: "a backend keeps queues, items and bytes: one that knows what a message is would have rules of its own",
        example: "use rules::message::content;",
    },
    Rule {
        rooms: &["tests/"],
        except: &[
            "tests/bench/src/bin/bench/aws/",
            "tests/src/harness/place.rs",
            "tests/src/harness/lambda/",
            "tests/src/harness/stack/",
            "tests/it/aws/",
            "tests/it/lambda/",
        ],
        forbidden: &["aws_sdk_*", "aws_config", "aws_smithy_*"],
        tests_too: true,
        why: "the SDK's types end at the ports: code that names them elsewhere would work on one backend only",
        example: "let client = aws_sdk_sqs::Client::new(&config);",
    },
    Rule {
        rooms: &["shared/process/src/telemetry/alerts.rs", "shared/process/src/telemetry/dashboard.rs"],
        except: &[],
        forbidden: &["async", "await", "tokio", "std::fs", "counter!", "gauge!", "histogram!"],
        tests_too: true,
        why: "what watches is made from the table of metrics alone, so that it names nothing that is not there",
        example: "std::fs::read_to_string(\"dashboard.json\");",
    },
    Rule {
        rooms: &["workers/src/quarantine/redaction.rs"],
        except: &[],
        forbidden: &["async", "await", "Archive", "Queue", "tracing"],
        tests_too: true,
        why: "what may be shown of a job is a function of the job: that no secret is left is shown by examples",
        example: "async fn shown(archive: &dyn Archive) {}",
    },
    Rule {
        rooms: &["workers/src/"],
        except: &["workers/src/lambda/"],
        forbidden: &["aws", "aws_*"],
        tests_too: true,
        why: "a worker gets its ports handed in: the same worker runs on one machine and in a fleet",
        example: "let queue = aws::Aws::connect(names).await?.queue();",
    },
    Rule {
        rooms: &["workers/src/existence/"],
        // What an event writes is held there against what was asked about.
        except: &["workers/src/existence/entities_properties.rs"],
        forbidden: &[
            "Queue",
            "Worker",
            "Outcome",
            "Delivery",
            "changes()",
            "message_writer",
            "channel_indexer",
        ],
        tests_too: true,
        why: "the check says whether something exists, regardless of who asks: what is stored, and what becomes of a job, is the \
              worker's",
        example: "fn judge(job: &Delivery) -> Outcome {}",
    },
    Rule {
        rooms: &["workers/src/claims/"],
        except: &[],
        forbidden: &["archive", "Archive", "queue", "Queue", "slack", "rules", "runtime", "file_downloader"],
        tests_too: true,
        why: "a claim is a key and a time: what is claimed, and what it means that it was done, its worker knows",
        example: "use ports::archive::Archive;",
    },
    Rule {
        rooms: &["cli/", "ingest/", "workers/"],
        except: &["workers/tests/"],
        forbidden: &["Transport", "carried_by"],
        tests_too: true,
        why: "what carries a token to Slack is chosen beside it: only a test on virtual time puts something in its place",
        example: "let api = WebApi::carried_by(transport, url, tokens);",
    },
    Rule {
        rooms: &["tests/simulation/src/"],
        except: &["tests/simulation/src/bin/"],
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
        why: "a seed does the same thing whenever it runs: real time, threads, sockets and maps in random order would \
              each make another run of it",
        example: "let leases: HashMap<u64, u64> = HashMap::new();",
    },
    Rule {
        rooms: &["shared/processor/src/"],
        except: &[],
        forbidden: &["slack_api", "Archive", "WebApi", "BOT_TOKEN", "env::var"],
        tests_too: true,
        why: "what answers questions gets a question and nothing else: no token of Slack's and no archive can reach it",
        example: "async fn answer(web: &WebApi) {}",
    },
    Rule {
        rooms: &["workers/src/responder/"],
        except: &[],
        forbidden: &["WebApi", "slack_api", "Token"],
        tests_too: true,
        why: "the responder asks a processor and writes rows; only the poster, which runs no processor, can post",
        example: "let web: Arc<WebApi> = environment.web.clone();",
    },
    Rule {
        rooms: &["shared/slack-api/src/probe.rs"],
        except: &[],
        forbidden: &["Token", "Tokens", "TokenKind", "WebApi", "bearer_auth", "basic_auth", "AUTHORIZATION"],
        tests_too: true,
        why: "it calls addresses that a user typed: code that knows no token cannot leak one",
        example: "let request = client.post(url).bearer_auth(token);",
    },
    Rule {
        rooms: &[
            "cli/src/operate/doctor/setup.rs",
            "cli/src/operate/doctor/arrival.rs",
            "cli/src/operate/doctor/keeping.rs",
            "cli/src/operate/doctor/answering.rs",
        ],
        except: &[],
        forbidden: &["async", "await", "tokio", "std::fs", "Clock", "Archive", "Queue", "Backend"],
        tests_too: true,
        why: "a judgement is a function of the facts: what it says of each fault is shown by a table, without making the fault",
        example: "async fn judge(archive: &dyn Archive) {}",
    },
    Rule {
        rooms: &["cli/src/operate/doctor/"],
        except: &[],
        forbidden: &[".write(", ".send(", ".ack(", "delete_unchanged", ".erase(", "Update", "Backend::open("],
        tests_too: true,
        why: "a search for a fault must not cause another: the doctor changes nothing",
        example: "archive.write(&update).await?;",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &["shared/slack/src/", "shared/slack-api/src/", "shared/processor/src/"],
        forbidden: &["expose_secret", "ExposeSecret"],
        tests_too: true,
        why: "a secret is opened where it is used, beside the signature and the bearer header, and nowhere else",
        example: "let token = token.expose_secret();",
    },
    Rule {
        rooms: &["cli/src/mcp/", "cli/src/read/"],
        except: &[],
        forbidden: &[
            ".write(",
            ".write_all(",
            ".send(",
            ".ack(",
            "delete_unchanged",
            ".erase(",
            "Update",
            "Queue",
            "apply_once",
        ],
        tests_too: false,
        why: "reading must be safe on a folder that is in use: the read half has no way to change anything",
        example: "archive.delete_unchanged(&item).await?;",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &["cli/src/mcp/", "tests/it/mcp.rs"],
        forbidden: &["rmcp"],
        tests_too: true,
        why: "a protocol that changes each year is one more way to ask: what is answered is the reader's, and knows none",
        example: "use rmcp::ServerHandler;",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &["cli/src/operate/"],
        forbidden: &["tar"],
        tests_too: true,
        why: "what a backup holds and how it is packed change for different reasons, and reading a tar from outside \
              takes care: one place does it",
        example: "let tar = tar::Builder::new(file);",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &[
            "cli/src/operate/import/zipped.rs",
            "tests/bench/src/bin/bench/import/",
            "tests/it/import/",
        ],
        forbidden: &["zip::"],
        tests_too: true,
        why: "a zip from outside needs bounds on whatever comes out of it: one place has them, and what an export consists of is \
              known without a zip",
        example: "let archive = zip::ZipArchive::new(file)?;",
    },
    Rule {
        rooms: &["workers/src/import/"],
        except: &[],
        forbidden: &["std::fs", "std::path", "tokio::fs"],
        tests_too: true,
        why: "a name in an export is no path: code that knows no paths cannot follow one",
        example: "let day = std::fs::File::open(name)?;",
    },
    Rule {
        rooms: &["cli/src/"],
        except: &["cli/src/demo/", "cli/src/operate/"],
        forbidden: &["embedded::"],
        tests_too: false,
        why: "commands work on any backend through the ports; only a backup and the demo are of one folder",
        example: "let database = embedded::Database::open(folder, clock)?;",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &["shared/ports/src/clock.rs"],
        forbidden: &["SystemTime", "UNIX_EPOCH", "Timestamp::now", "Zoned::now"],
        tests_too: true,
        why: "time is handed in as a Clock: a test decides what time it is, and nothing stored comes from a writer's \
              clock by accident",
        example: "let now = std::time::SystemTime::now();",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &["shared/process/src/config/", "tests/src/harness/"],
        forbidden: &["env::var", "env::var_os", "env::vars", "env::set_var", "(env =", ", env ="],
        tests_too: true,
        why: "settings are read in one place, so that the list of them there is whole",
        example: "#[arg(long, env = \"ANNALIST_DATA\")]",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &[],
        forbidden: &["PreEscaped"],
        tests_too: true,
        why: "what a page shows comes from outside: all of it is escaped, and nothing can say that it is not",
        example: "html! { (PreEscaped(text)) }",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &[],
        forbidden: &["todo!", "unimplemented!", "dbg!"],
        tests_too: true,
        why: "what is in the repository is finished",
        example: "fn later() { todo!() }",
    },
    Rule {
        rooms: EVERYWHERE,
        except: &[],
        forbidden: &[
            "mod utils",
            "mod util",
            "mod common",
            "mod helpers",
            "mod helper",
            "mod manager",
            "mod misc",
        ],
        tests_too: true,
        why: "a module's name says what it is about; a name that fits everything collects everything",
        example: "pub mod utils;",
    },
    Rule {
        rooms: &["shared/slack-api/tests/", "tests/it/", "workers/tests/"],
        except: &[
            ON_VIRTUAL_TIME[0],
            ON_VIRTUAL_TIME[1],
            AT_RANDOM_MOMENTS[0],
            AT_RANDOM_MOMENTS[1],
            AT_RANDOM_MOMENTS[2],
        ],
        forbidden: &["sleep", "sleep_until", "sleep_ms"],
        tests_too: true,
        why: "a test that sleeps is slow when it passes and fails on a busy machine: wait for the signal itself",
        example: "tokio::time::sleep(Duration::from_secs(1)).await;",
    },
];

/// Their runtime is paused: timers there are exact and cost nothing, so sleeping is moving a clock.
pub(super) const ON_VIRTUAL_TIME: [&str; 2] = ["tests/it/aws/idle.rs", "workers/tests/it/runtime/"];

/// They kill at random moments: the moment itself is what is tested, nothing is waited for.
const AT_RANDOM_MOMENTS: [&str; 3] =
    ["tests/it/aws/crash.rs", "tests/it/crash.rs", "tests/it/backfill/killed.rs"];

/// Names of files and folders that say nothing.
pub(super) const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "stuff"];

/// Beyond this a file has more than one reason to change.
pub(super) const LONGEST_FILE: usize = 400;
