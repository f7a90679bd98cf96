//! Who may read the pages, according to the settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use axum::http::HeaderName;
use oidc::client::OidcSettings;
use oidc::issuer::{Issuer, SiteAddress};
use ports::clock::SharedClock;
use process::config::viewer::{
    CLIENT_SECRET, DEFAULT_SCOPE, SignInArgs, ViewerArgs, client_secret, reread_file,
};
use viewer::access::people::{NamedPerson, PeopleSettings, PeopleTable};
use viewer::access::provider::{SignIn, SignInSettings};
use viewer::access::{self, Access, CookieKey, ViewerAccess};

use crate::viewer_password::{self, PasswordPlace};
use crate::{UsageError, cookie_key};

/// The claim by which every provider names a person.
const DEFAULT_USER_CLAIM: &str = "sub";

/// The scope without which there is no ID token.
const OPENID: &str = "openid";

/// Several settings say who may read the pages.
const SEVERAL_GUARDS: &str = "--viewer-password-file (ANNALIST_VIEWER_PASSWORD_FILE), --viewer-user-header \
    (ANNALIST_VIEWER_USER_HEADER) and --oidc-issuer (ANNALIST_OIDC_ISSUER) exclude each other: keep one of them";

/// Who may read, before anything is opened.
pub(crate) struct PageGuard {
    hosts: Vec<String>,
    readers: ConfiguredReaders,
    people_file: Option<PathBuf>,
    people: PeopleSettings,
    /// The origin of the pages at their public address.
    origin: Option<String>,
}

enum ConfiguredReaders {
    Known(ViewerAccess),
    /// Those who know the password in this file, which is made if it is missing.
    MadePassword(PathBuf),
}

impl PageGuard {
    /// Checks the settings. `data` is the data folder, if there is one.
    pub(crate) fn read(args: &ViewerArgs, address: SocketAddr, data: Option<&Path>) -> anyhow::Result<Self> {
        let sign_in = &args.sign_in;
        let site = sign_in.viewer_url.as_deref().map(|url| value("--viewer-url", url)).transpose()?;
        let readers = readers(args, site.as_ref(), address, data)?;
        let mut hosts: Vec<String> =
            args.viewer_host.iter().map(|name| host_name(name)).collect::<anyhow::Result<_>>()?;
        hosts.extend(site.as_ref().map(|site| site.host().to_owned()));
        let admins = sign_in.viewer_admins.iter().map(|id| id.trim()).filter(|id| !id.is_empty());
        let admins =
            admins.map(|id| value::<NamedPerson>("--viewer-admins", id)).collect::<Result<_, _>>()?;
        let people = PeopleSettings { table: None, admins, are_guests_admitted: sign_in.viewer_guests };
        let origin = site.as_ref().map(SiteAddress::origin);
        let people_file = sign_in.viewer_people_file.clone();
        let guard = Self { hosts, readers, people_file, people, origin };
        // A file that cannot be used fails at once.
        guard.people_table(&ports::clock::SystemClock::shared())?;
        Ok(guard)
    }

    pub(crate) fn origin(&self) -> Option<String> {
        self.origin.clone()
    }

    /// The access control of a listener at this address. The secret of cookies is kept next to the search index.
    pub(crate) fn open(
        &self,
        address: SocketAddr,
        index: &Path,
        clock: &SharedClock,
    ) -> anyhow::Result<Access> {
        let readers = match &self.readers {
            ConfiguredReaders::Known(readers) => readers.clone(),
            ConfiguredReaders::MadePassword(file) => {
                ViewerAccess::Password(viewer_password::read_or_create(file)?)
            }
        };
        let key = match &readers {
            ViewerAccess::Password(_) => cookie_key::read_or_create(&index.with_file_name(cookie_key::FILE))?,
            // Without a password there is no such cookie.
            ViewerAccess::All | ViewerAccess::Header(_) | ViewerAccess::SignIn(_) => {
                CookieKey::new([0; CookieKey::BYTES])
            }
        };
        let people = PeopleSettings { table: self.people_table(clock)?, ..self.people.clone() };
        Ok(Access::new(address, &self.hosts, readers, people, &key))
    }

    fn people_table(
        &self,
        clock: &SharedClock,
    ) -> anyhow::Result<Option<Arc<ports::reread::Reread<PeopleTable>>>> {
        let Some(file) = &self.people_file else { return Ok(None) };
        let table = reread_file("ANNALIST_VIEWER_PEOPLE_FILE", file, Arc::clone(clock), PeopleTable::parse)
            .map_err(|why| {
            UsageError::new(format!("--viewer-people-file {} cannot be used: {why}", file.display()))
        })?;
        Ok(Some(Arc::new(table)))
    }
}

fn readers(
    args: &ViewerArgs,
    site: Option<&SiteAddress>,
    address: SocketAddr,
    data: Option<&Path>,
) -> anyhow::Result<ConfiguredReaders> {
    // Arguments that exclude each other may come from different places.
    match (&args.viewer_password_file, &args.viewer_user_header, &args.sign_in.oidc_issuer) {
        (None, None, Some(issuer)) => {
            let provider = provider(&args.sign_in, issuer, site)?;
            return Ok(ConfiguredReaders::Known(ViewerAccess::SignIn(Arc::new(provider))));
        }
        (None, None, None) => {}
        (Some(file), None, None) => {
            return Ok(match PasswordPlace::new(file, data)? {
                PasswordPlace::Given(file) => {
                    ConfiguredReaders::Known(ViewerAccess::Password(viewer_password::read(&file)?))
                }
                PasswordPlace::Made(file) => ConfiguredReaders::MadePassword(file),
            });
        }
        (None, Some(header), None) => {
            return Ok(ConfiguredReaders::Known(ViewerAccess::Header(header_name(header)?)));
        }
        (_, _, _) => return Err(UsageError::new(SEVERAL_GUARDS).into()),
    }
    if args.sign_in.oidc_client_id.is_some() || client_secret().is_some() {
        let why = format!(
            "--oidc-client-id or {CLIENT_SECRET} is set, and --oidc-issuer (ANNALIST_OIDC_ISSUER) is not: set it \
             to slack or to the URL of your provider, or unset the others"
        );
        return Err(UsageError::new(why).into());
    }
    if address.ip().is_loopback() {
        return Ok(ConfiguredReaders::Known(ViewerAccess::All));
    }
    let why = format!(
        "--viewer-listen {address} is reached from other machines: give a password with --viewer-password-file, the \
         header in which a proxy names the reader with --viewer-user-header, or a provider for sign-in with \
         --oidc-issuer"
    );
    Err(UsageError::new(why).into())
}

fn provider(args: &SignInArgs, issuer: &str, site: Option<&SiteAddress>) -> anyhow::Result<SignIn> {
    let needs = |what: &str| UsageError::new(format!("--oidc-issuer needs {what}"));
    let issuer: Issuer = value("--oidc-issuer", issuer)?;
    let client_id = args.oidc_client_id.as_deref().map(str::trim).filter(|id| !id.is_empty());
    let client_id = client_id.ok_or_else(|| needs("--oidc-client-id (ANNALIST_OIDC_CLIENT_ID)"))?;
    let client_secret =
        client_secret().ok_or_else(|| needs(&format!("the secret of the client in {CLIENT_SECRET}")))?;
    let site =
        site.ok_or_else(|| needs("--viewer-url (ANNALIST_VIEWER_URL), the public address of the pages"))?;
    let scope = args.oidc_scope.clone().unwrap_or_else(|| DEFAULT_SCOPE.to_owned());
    if !scope.split_whitespace().any(|part| part == OPENID) {
        return Err(UsageError::new("--oidc-scope must contain openid, such as \"openid profile\"").into());
    }
    let required = args.oidc_require.iter().map(|required| match required.split_once('=') {
        Some((claim, value)) if !claim.trim().is_empty() && !value.trim().is_empty() => {
            Ok((claim.trim().to_owned(), value.trim().to_owned()))
        }
        Some(_) | None => Err(UsageError::new(format!(
            "--oidc-require {required:?} is not CLAIM=VALUE, such as hd=example.org"
        ))),
    });
    Ok(SignIn::new(SignInSettings {
        client: OidcSettings {
            issuer,
            client_id: client_id.to_owned(),
            client_secret,
            redirect_uri: site.with_path("/login/callback"),
            scope,
        },
        user_claim: args.oidc_user_claim.clone().unwrap_or_else(|| DEFAULT_USER_CLAIM.to_owned()),
        required: required.collect::<Result<_, _>>()?,
    }))
}

/// Parses the value of a setting. An address may contain a password: it is not repeated.
fn value<T: std::str::FromStr<Err: std::fmt::Display>>(setting: &str, text: &str) -> Result<T, UsageError> {
    text.parse().map_err(|why: T::Err| UsageError::new(format!("{setting} cannot be used: {why}")))
}

/// Refuses a name that the `Host` of a request can never have.
fn host_name(name: &str) -> anyhow::Result<String> {
    let name = name.trim();
    if !access::is_host_name(name) {
        let why = format!("--viewer-host {name:?} is not a host name: write it as archive.example");
        return Err(UsageError::new(why).into());
    }
    Ok(name.to_owned())
}

fn header_name(header: &str) -> anyhow::Result<HeaderName> {
    let name = HeaderName::from_bytes(header.as_bytes()).ok().context("unreadable");
    name.map_err(|_| UsageError::new("--viewer-user-header names a header such as X-Forwarded-User").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_no_request_has_is_refused() {
        assert_eq!(host_name(" archive.example ").unwrap(), "archive.example");
        for name in ["", "https://archive.example", "*"] {
            let error = host_name(name).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }

    fn refusal(change: impl FnOnce(&mut ViewerArgs), address: &str) -> String {
        let mut args = ViewerArgs::default();
        change(&mut args);
        let error = PageGuard::read(&args, address.parse().unwrap(), None).err().unwrap();
        assert!(error.is::<UsageError>() && !error.to_string().contains('\n'), "{error}");
        error.to_string()
    }

    #[test]
    fn a_wrong_setting_of_the_sign_in_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let people = folder.path().join("people.json");
        std::fs::write(&people, "[]").unwrap();
        let issuer = |issuer: &'static str| {
            move |args: &mut ViewerArgs| args.sign_in.oidc_issuer = Some(issuer.into())
        };
        let loopback = "127.0.0.1:3002";
        for (error, expected) in [
            (refusal(|_| (), "192.0.2.1:3002"), "--oidc-issuer"),
            (refusal(issuer(""), loopback), "--oidc-issuer"),
            (refusal(issuer("http://accounts.example"), loopback), "https://"),
            (refusal(issuer("slack"), loopback), "--oidc-client-id"),
            (
                refusal(
                    |args| {
                        issuer("slack")(args);
                        args.viewer_user_header = Some("x-user".to_owned());
                    },
                    loopback,
                ),
                "exclude each other",
            ),
            (
                refusal(
                    |args| {
                        issuer("slack")(args);
                        args.sign_in.oidc_client_id = Some("7.8".to_owned());
                    },
                    loopback,
                ),
                CLIENT_SECRET,
            ),
            (refusal(|args| args.sign_in.oidc_client_id = Some("7.8".to_owned()), loopback), "--oidc-issuer"),
            (
                refusal(|args| args.sign_in.viewer_url = Some("https://a.example/b".to_owned()), loopback),
                "has a path",
            ),
            (
                refusal(|args| args.sign_in.viewer_admins = vec!["ana".to_owned()], loopback),
                "--viewer-admins",
            ),
            (
                refusal(|args| args.sign_in.viewer_people_file = Some(people.clone()), loopback),
                "--viewer-people-file",
            ),
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }
}
