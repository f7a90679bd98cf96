//! The systemd unit of an installation: the one in `deploy`, with this program and its folder.

use std::path::Path;

use crate::UsageError;

const UNIT: &str = include_str!("../../../deploy/annalist.service");

/// The folder in which systemd keeps the folders of services.
const STATE: &str = "/var/lib";

/// Returns the unit that runs this program on this data folder with this settings file. In another place than
/// `/var/lib`, it runs as the user with this id, to whom the folder belongs.
pub(super) fn unit(program: &Path, data: &Path, settings: &Path, user: u32) -> Result<String, UsageError> {
    let (program, data_text, settings) = (word(program)?, word(data)?, word(settings)?);
    let state = (data.parent() == Some(Path::new(STATE))).then(|| data.file_name()).flatten();
    let state = state.and_then(|name| name.to_str());
    let line = |line: &str| match line.split_once('=') {
        Some(("ExecStart", _)) => format!("ExecStart={program} up"),
        Some(("EnvironmentFile", _)) => format!("EnvironmentFile=-{settings}"),
        Some(("Environment", value)) if value.starts_with("ANNALIST_DATA=") => {
            format!("Environment=ANNALIST_DATA={data_text}")
        }
        Some((name, value)) => match (name, state) {
            ("StateDirectory", Some(state)) => format!("StateDirectory={state}"),
            ("StateDirectory", None) => format!("ReadWritePaths={data_text}"),
            ("StateDirectoryMode", None) => String::new(),
            ("DynamicUser", None) => "DynamicUser=no".to_owned(),
            ("User", None) => format!("User={user}"),
            // The folder or the program may be in a home.
            ("ProtectHome", None) => "ProtectHome=read-only".to_owned(),
            _ => format!("{name}={value}"),
        },
        None => line.to_owned(),
    };
    let lines = UNIT.lines().map(|text| (text, line(text)));
    Ok(lines.filter(|(old, new)| old.is_empty() || !new.is_empty()).map(|(_, new)| new + "\n").collect())
}

/// The path as a word of a unit, in which other characters have a meaning.
fn word(path: &Path) -> Result<&str, UsageError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    let plain = path.to_str().filter(|text| text.starts_with('/') && text.bytes().all(is_plain));
    plain.ok_or_else(|| {
        let shown = path.display();
        UsageError::new(format!("a service cannot use {shown}: choose a path of letters, digits and /._-+@"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit_of(program: &str, data: &str) -> Result<String, UsageError> {
        unit(Path::new(program), Path::new(data), Path::new("/etc/annalist/annalist.env"), 1000)
    }

    #[test]
    fn the_unit_for_the_usual_folder_is_the_one_in_deploy() {
        assert_eq!(unit_of("/usr/local/bin/annalist", "/var/lib/annalist").unwrap(), UNIT);
    }

    #[test]
    fn another_folder_below_var_lib_belongs_to_the_services_own_user() {
        let unit = unit_of("/opt/annalist", "/var/lib/acme").unwrap();
        for line in [
            "ExecStart=/opt/annalist up",
            "EnvironmentFile=-/etc/annalist/annalist.env",
            "Environment=ANNALIST_DATA=/var/lib/acme",
            "StateDirectory=acme",
            "DynamicUser=yes",
        ] {
            assert!(unit.lines().any(|known| known == line), "{line}: {unit}");
        }
    }

    #[test]
    fn a_folder_elsewhere_belongs_to_the_user_who_owns_it() {
        let unit = unit_of("/home/ana/bin/annalist", "/home/ana/archive").unwrap();
        for line in [
            "User=1000",
            "DynamicUser=no",
            "ReadWritePaths=/home/ana/archive",
            "ProtectHome=read-only",
            "ProtectSystem=strict",
        ] {
            assert!(unit.lines().any(|known| known == line), "{line}: {unit}");
        }
        assert!(!unit.contains("StateDirectory"), "{unit}");
    }

    #[test]
    fn a_path_with_characters_that_mean_something_to_systemd_is_refused() {
        for data in ["/srv/a b", "/srv/100%", "/srv/$HOME", "/srv/a\nUser=root", "relative"] {
            let error = unit_of("/usr/local/bin/annalist", data).unwrap_err().to_string();
            assert!(error.contains("choose a path of letters"), "{error}");
        }
    }
}
