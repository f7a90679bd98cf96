//! A program as a processor: it reads the question as JSON from standard input and writes the answer to
//! standard output.
//!
//! It starts without a shell, in an empty folder, without the environment of this process, without access to
//! the archive, and in its own process group. The whole group is killed shortly after the program has exited,
//! at its time limit, or if the work is dropped: a grandchild would keep the output open.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{DumpableBehavior, Pid, Signal, kill_process_group, set_dumpable_behavior};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

use crate::confinement;
use crate::{Answer, MAX_ANSWER_BYTES, Processor, ProcessorError, Prompt};

/// The search path of a program: system programs and locally installed ones.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// `EX_TEMPFAIL` of sysexits.h: the program requests a retry.
const TEMPORARY_FAILURE: i32 = 75;

/// The interval between SIGTERM and SIGKILL, and the time for children of the program to write output after
/// it has exited.
const GRACE: Duration = Duration::from_secs(2);

/// How much of the end of standard error is kept, and how much of its last line is logged.
const MAX_STDERR_BYTES: usize = 4 * 1024;
const MAX_LOGGED_BYTES: usize = 200;

/// Prefixes of tokens of Slack and of model providers.
const TOKEN_PREFIXES: [&str; 3] = ["xox", "xapp-", "sk-"];

/// The program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    program: PathBuf,
    arguments: Vec<String>,
}

/// A command that cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommand {
    /// It is neither a path nor an array.
    #[error("give the path of a program, or a JSON array of a path and its arguments")]
    Shape,
    /// The program does not exist or is not executable.
    #[error("there is no program {0} that may be run")]
    Missing(String),
}

impl CommandLine {
    /// Parses a path, or a JSON array of a path and arguments. The program must exist.
    pub fn parse(text: &str) -> Result<Self, InvalidCommand> {
        let text = text.trim();
        let mut words = if text.starts_with('[') {
            let words: Vec<Value> = serde_json::from_str(text).map_err(|_| InvalidCommand::Shape)?;
            let word = |word: Value| word.as_str().map(str::to_owned).ok_or(InvalidCommand::Shape);
            words.into_iter().map(word).collect::<Result<Vec<String>, _>>()?
        } else {
            vec![text.to_owned()]
        };
        if words.is_empty() || words[0].is_empty() || words.iter().any(|word| word.contains('\0')) {
            return Err(InvalidCommand::Shape);
        }
        let program = words.remove(0);
        let found = found(&program).ok_or(InvalidCommand::Missing(program))?;
        Ok(Self { program: found, arguments: words })
    }
}

/// The absolute path of a program with this name or path, since it is started in another folder. Symbolic
/// links are not resolved: the Python of a virtual environment is a link and finds its packages by its own
/// path.
fn found(program: &str) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![PathBuf::from(program)]
    } else {
        PATH.split(':').map(|folder| Path::new(folder).join(program)).collect()
    };
    let may_run = |path: &PathBuf| {
        let is_program = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
        path.is_file() && is_program
    };
    std::path::absolute(candidates.into_iter().find(may_run)?).ok()
}

/// A program that answers questions.
pub struct CommandProcessor {
    command: CommandLine,
    timeout: Duration,
    hidden: HiddenFromCommand,
}

/// What a command must not read, and what it must not say.
#[derive(Debug, Default, Clone)]
pub struct HiddenFromCommand {
    /// The archive, and files with secrets.
    pub paths: Vec<PathBuf>,
    /// They are replaced in its answers and in what is logged of its standard error.
    pub secrets: Vec<SecretString>,
}

/// A process group that is killed when this is dropped.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn new(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // Ignore an error: the group may have exited already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The output of a program.
#[derive(Default)]
struct Output {
    code: Option<i32>,
    answer: Vec<u8>,
    stderr: Vec<u8>,
}

impl CommandProcessor {
    /// A processor that runs this program with this time limit. From now on, no process of the same user can
    /// read this one's memory and environment, and it leaves no core dump.
    pub fn new(command: CommandLine, timeout: Duration, hidden: HiddenFromCommand) -> Self {
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "this process stays readable for others of its user");
        }
        if !confinement::is_supported() {
            tracing::warn!(
                "this kernel has no Landlock: the command can read the archive and whatever else this user can read"
            );
        }
        Self { command, timeout, hidden }
    }

    async fn run(&self, input: &str) -> Result<Output, ProcessorError> {
        let failed =
            |what: &str, error: io::Error| ProcessorError::transient(format!("the command {what}: {error}"));
        let folder = tempfile::tempdir().map_err(|error| failed("has no folder to run in", error))?;
        let mut command = Command::new(&self.command.program);
        command
            .args(&self.command.arguments)
            .env_clear()
            .envs([("PATH", PATH), ("LANG", "C.UTF-8"), ("HOME", "/nonexistent")])
            .current_dir(folder.path())
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let runtime = Handle::current();
        let mut child = confinement::start_without(&self.hidden.paths, || {
            let _entered = runtime.enter();
            command.spawn()
        })
        .map_err(|error| {
            let is_hidden = error.kind() == io::ErrorKind::PermissionDenied;
            let advice =
                if is_hidden { "; neither it nor what it needs may be in the data folder" } else { "" };
            failed(&format!("cannot be started{advice}"), error)
        })?;
        let group = ProcessGroup::new(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // Ignore write errors: a program may answer without reading the question.
                drop(stdin.write_all(input.as_bytes()).await);
                drop(stdin.shutdown().await);
            }
        };
        let mut output = Output::default();
        let pipes = async {
            let stdout = read_start(stdout, MAX_ANSWER_BYTES, &mut output.answer);
            tokio::join!(write, stdout, read_end(stderr, MAX_STDERR_BYTES, &mut output.stderr));
        };
        match wait_for_exit(&mut child, Instant::now() + self.timeout, pipes).await {
            Ok(status) => {
                output.code = status.map_err(|error| failed("cannot be waited for", error))?.code();
                Ok(output)
            }
            Err(_) => {
                group.signal(Signal::TERM);
                drop(timeout(GRACE, child.wait()).await);
                group.signal(Signal::KILL);
                let seconds = self.timeout.as_secs();
                Err(ProcessorError::Permanent(format!(
                    "the command took longer than {seconds} s and was killed"
                )))
            }
        }
    }
}

/// Waits until a program exits, and returns its status. Its pipes are served in the meantime, and for a
/// moment longer if its children keep them open.
async fn wait_for_exit(
    child: &mut Child,
    deadline: Instant,
    pipes: impl Future<Output = ()>,
) -> Result<io::Result<ExitStatus>, Elapsed> {
    let mut pipes = pin!(pipes);
    tokio::select! {
        biased;
        () = &mut pipes => timeout_at(deadline, child.wait()).await,
        ended = timeout_at(deadline, child.wait()) => {
            if ended.is_ok() {
                drop(timeout(GRACE, pipes).await);
            }
            ended
        }
    }
}

/// Keeps the start of an output. The rest is read and discarded, so that the program can exit.
async fn read_start(reader: Option<impl AsyncRead + Unpin>, max_bytes: usize, kept: &mut Vec<u8>) {
    let Some(mut reader) = reader else { return };
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = reader.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        let room = max_bytes - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}

/// Keeps the end of an output.
async fn read_end(reader: Option<impl AsyncRead + Unpin>, max_bytes: usize, kept: &mut Vec<u8>) {
    let Some(mut reader) = reader else { return };
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = reader.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..count]);
        kept.drain(..kept.len().saturating_sub(max_bytes));
    }
}

/// The last line of an output for the log: without control characters and secrets, and truncated.
fn last_line(output: &[u8], secrets: &[SecretString]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.trim_end().rsplit('\n').next().unwrap_or_default().replace(char::is_control, " ");
    let mut line = without_secrets(&line, secrets, begins_like_token);
    line.truncate(line.floor_char_boundary(MAX_LOGGED_BYTES));
    line
}

fn begins_like_token(word: &str) -> bool {
    TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Whether a word of an answer is a token. Tokens have digits; words such as `sk-learn` stay.
fn is_token(word: &str) -> bool {
    begins_like_token(word) && word.contains(|c: char| c.is_ascii_digit())
}

/// A text without these secrets, and without the words that are tokens.
fn without_secrets(text: &str, secrets: &[SecretString], is_token: impl Fn(&str) -> bool) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "[secret]");
    }
    let is_in_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let words = text.split_inclusive(|c: char| !is_in_token(c)).map(|word| {
        let token = word.trim_end_matches(|c: char| !is_in_token(c));
        if is_token(token) { word.replace(token, "[secret]") } else { word.to_owned() }
    });
    words.collect()
}

#[async_trait]
impl Processor for CommandProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        let Output { code, answer, stderr } = self.run(&prompt.json()).await?;
        if !stderr.is_empty() {
            let last_line = last_line(&stderr, &self.hidden.secrets);
            tracing::info!(id = prompt.id, last_line, "the command wrote to standard error");
        }
        match code {
            Some(0) => {
                let text = String::from_utf8_lossy(&answer);
                // Omits a character that the length limit has cut.
                let text = text.trim_end_matches('\u{fffd}');
                Answer::from_text(without_secrets(text, &self.hidden.secrets, is_token))
            }
            Some(TEMPORARY_FAILURE) => {
                Err(ProcessorError::transient("the command requested a retry (exit code 75)"))
            }
            Some(code) => Err(ProcessorError::Permanent(format!("the command ended with exit code {code}"))),
            None => Err(ProcessorError::Permanent("the command was ended by a signal".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(command: &str, timeout: Duration, question: &str) -> Result<Answer, ProcessorError> {
        let command = CommandLine::parse(command).unwrap();
        let prompt = Prompt { question: question.into(), ..Prompt::default() };
        CommandProcessor::new(command, timeout, HiddenFromCommand::default()).answer(&prompt).await
    }

    fn text(answer: Result<Answer, ProcessorError>) -> String {
        match answer {
            Ok(Answer::Text(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_command_sees_three_variables_and_an_empty_folder() {
        let seen = text(answer(r#"["env"]"#, LONG, "").await);
        let mut names: Vec<&str> = seen.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "LANG", "PATH"]);
        let listed = text(answer(r#"["sh", "-c", "ls -A | wc -l"]"#, LONG, "").await);
        assert_eq!(listed.trim(), "0");
    }

    #[tokio::test]
    async fn a_program_behind_a_link_is_started_by_the_name_of_the_link() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("python");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        let command = serde_json::json!([link, "-c", "echo \"$0\""]).to_string();
        assert_eq!(text(answer(&command, LONG, "").await).trim(), link.to_str().unwrap());
    }

    #[tokio::test]
    async fn a_command_reaches_neither_the_archive_nor_this_process() {
        if !confinement::is_supported() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (data, beside) = (folder.path().join("data"), folder.path().join("beside"));
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("annalist.db"), "kept words").unwrap();
        std::fs::write(&beside, "other words").unwrap();
        let script = "cat \"$1\"/annalist.db; ls \"$1\"; cat \"$2\"; cat /proc/$PPID/environ | tr '\\0' '\\n'; \
                      setsid -w cat \"$1\"/annalist.db; readlink /proc/$PPID/fd/0; echo written > note && cat note; \
                      kill -0 $PPID && echo signalled; echo done; true";
        let command = serde_json::json!(["sh", "-c", script, "sh", data, beside]).to_string();
        let command = CommandLine::parse(&command).unwrap();
        let hidden = HiddenFromCommand { paths: vec![data], secrets: Vec::new() };
        let answer = CommandProcessor::new(command, LONG, hidden).answer(&Prompt::default()).await;
        assert_eq!(text(answer), "other wordswritten\ndone\n");
    }

    #[tokio::test]
    async fn an_answer_has_no_secret() {
        let hidden = HiddenFromCommand { paths: Vec::new(), secrets: vec!["hidden words".into()] };
        let command = CommandLine::parse(
            r#"["echo", "hidden words, xoxb-1-abc, xapp-1-x, sk-ant-2, xoxo and sk-learn"]"#,
        )
        .unwrap();
        let answer = CommandProcessor::new(command, LONG, hidden).answer(&Prompt::default()).await;
        assert_eq!(text(answer).trim(), "[secret], [secret], [secret], [secret], xoxo and sk-learn");
    }

    #[tokio::test]
    async fn a_question_arrives_unchanged() {
        let hostile = "\"; rm -rf / #\n$(id) `id` \\ '";
        let input = text(answer("/bin/cat", LONG, hostile).await);
        let input: Value = serde_json::from_str(&input).unwrap();
        assert_eq!((&input["question"], &input["v"]), (&Value::from(hostile), &Value::from(1)));
        assert!(input.get("raw").is_none() && input.get("is_mention").is_none());
    }

    /// The outcome of a shell script that starts a process which keeps running; that process must be killed too.
    async fn answer_once_the_group_is_gone(
        end_of_script: &str,
        time_limit: Duration,
    ) -> Result<Answer, ProcessorError> {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("alive");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let script = format!("exec 3> {}; sleep 60 & {end_of_script}", pipe.display());
        // The pipe reaches its end once no process of the group can write to it.
        let all_gone = tokio::task::spawn_blocking(move || std::fs::read(pipe));
        let command = serde_json::json!(["sh", "-c", script]).to_string();
        let answer = answer(&command, time_limit, "").await;
        let all_gone = timeout(Duration::from_secs(20), all_gone).await;
        assert!(all_gone.is_ok(), "a process of the group keeps running");
        answer
    }

    #[tokio::test]
    async fn at_the_time_limit_the_whole_group_is_killed() {
        let ended = answer_once_the_group_is_gone("wait", Duration::from_secs(2)).await;
        assert!(matches!(&ended, Err(ProcessorError::Permanent(why)) if why.contains("killed")), "{ended:?}");
    }

    #[tokio::test]
    async fn a_child_that_keeps_running_is_killed_and_the_answer_is_kept() {
        let kept = answer_once_the_group_is_gone("echo answered", Duration::from_secs(20)).await;
        assert_eq!(text(kept).trim(), "answered");
    }

    #[tokio::test]
    async fn a_long_answer_is_cut_and_the_exit_code_decides_about_retries() {
        let long_answer = text(answer(r#"["sh", "-c", "yes | head -c 10000000"]"#, LONG, "").await);
        assert_eq!(long_answer.len(), MAX_ANSWER_BYTES);
        for (code, is_transient) in [(75, true), (1, false), (127, false)] {
            let command = format!(r#"["sh", "-c", "exit {code}"]"#);
            let failed = answer(&command, LONG, "").await.unwrap_err();
            assert_eq!(matches!(failed, ProcessorError::Transient { .. }), is_transient, "{code}: {failed}");
        }
        assert!(matches!(answer("/bin/true", LONG, "").await, Err(ProcessorError::Permanent(_))));
    }

    #[test]
    fn the_log_gets_the_last_line_without_secrets() {
        let secrets = [SecretString::from("hidden of processor"), SecretString::from("")];
        let logged = |output: &[u8]| last_line(output, &secrets);
        assert_eq!(logged(b"a traceback\n  and more\nKeyError: 'x'\r\n\n"), "KeyError: 'x'");
        assert_eq!(logged(b"401 for hidden of processor!"), "401 for [secret]!");
        assert_eq!(
            logged(b"token=xoxb-1-abc, key \"sk-ant-2\" and xapp-3"),
            "token=[secret], key \"[secret]\" and [secret]"
        );
        assert_eq!(logged(b"\x1b[31mred\x07 \xff"), " [31mred  \u{fffd}");
        assert_eq!(logged("é".repeat(150).as_bytes()), "é".repeat(100));
        assert_eq!(logged(b""), "");
    }

    #[tokio::test]
    async fn the_end_of_standard_error_is_kept() {
        let written = [b"begins".as_slice(), &[b'x'; 200_000], b"\nends"].concat();
        let mut kept = Vec::new();
        read_end(Some(written.as_slice()), MAX_STDERR_BYTES, &mut kept).await;
        assert_eq!((kept.len(), last_line(&kept, &[])), (MAX_STDERR_BYTES, "ends".to_owned()));
    }

    #[test]
    fn an_invalid_command_is_rejected_at_startup() {
        for text in
            ["", "[]", "[7]", "[\"\"]", "{}", "/nowhere/at/all", "[\"no-such-program-here\"]", "/etc/passwd"]
        {
            assert!(CommandLine::parse(text).is_err(), "{text}");
        }
    }
}
