//! Checks the settings file: whether it was read, who else can read it, and which settings are in it.

use process::config::{SettingsFacts, SettingsFileState};

use super::check::DoctorCheck;

const SETTINGS: &str = "settings";

pub(super) fn check(facts: &SettingsFacts) -> DoctorCheck {
    let in_environment = match &facts.in_environment[..] {
        [] => "nothing from the environment".to_owned(),
        names => format!("from the environment: {}", names.join(", ")),
    };
    let Some((path, state)) = &facts.file else {
        let says = format!("no file was named with --settings (ANNALIST_SETTINGS); {in_environment}");
        return DoctorCheck::ok(SETTINGS, says);
    };
    let path = path.display();
    match state {
        SettingsFileState::Missing => {
            DoctorCheck::ok(SETTINGS, format!("there is no {path}; {in_environment}"))
        }
        SettingsFileState::Forbidden => DoctorCheck::finding(
            SETTINGS,
            format!("this user may not read {path}"),
            "run `annalist doctor` as the user that runs `annalist up`",
        ),
        SettingsFileState::Read { is_open: true } if facts.has_secret => DoctorCheck::finding(
            SETTINGS,
            format!("other users of this machine can read the secrets in {path}"),
            format!("chmod 600 {path}"),
        ),
        SettingsFileState::Read { .. } => {
            let in_file = match &facts.in_file[..] {
                [] => "nothing".to_owned(),
                names => names.join(", "),
            };
            DoctorCheck::ok(SETTINGS, format!("from {path}: {in_file}; {in_environment}, which goes first"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{CheckState, assert_check};
    use super::*;

    #[test]
    fn the_file_its_mode_and_the_names_of_the_settings_are_reported() {
        let facts = |state: Option<SettingsFileState>| SettingsFacts {
            file: state.map(|state| ("/data/annalist.env".into(), state)),
            has_secret: true,
            in_file: vec!["SLACK_BOT_TOKEN".to_owned()],
            in_environment: vec!["ANNALIST_LOG"],
        };
        let read = |is_open| Some(SettingsFileState::Read { is_open });
        for (state, expected_state, expected) in [
            (
                read(false),
                CheckState::Ok,
                "from /data/annalist.env: SLACK_BOT_TOKEN; from the environment: ANNALIST_LOG",
            ),
            (read(true), CheckState::Finding, "chmod 600 /data/annalist.env"),
            (
                Some(SettingsFileState::Missing),
                CheckState::Ok,
                "there is no /data/annalist.env; from the environment",
            ),
            (Some(SettingsFileState::Forbidden), CheckState::Finding, "may not read /data/annalist.env"),
            (None, CheckState::Ok, "no file was named"),
        ] {
            assert_check(&check(&facts(state)), expected_state, expected);
        }
        let harmless = SettingsFacts { has_secret: false, in_environment: Vec::new(), ..facts(read(true)) };
        assert_check(&check(&harmless), CheckState::Ok, "nothing from the environment");
    }
}
