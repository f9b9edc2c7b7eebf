//! The vendor's PKCS#11 module: loaded, asked for a token, logged in to, finalised.

use std::os::unix::fs::MetadataExt;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};

use crate::error::{Fault, TokenError};
use crate::names::quoted;
use crate::pin::Pin;
use crate::uri::TokenUri;

/// A module that is initialised. Sessions end before it does.
pub(super) struct Module {
    context: Option<Pkcs11>,
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            // The process ends soon, and a module that does not finalise harms nobody then.
            let _ = context.finalize();
        }
    }
}

impl Module {
    /// Load the module that a URI names.
    pub(super) fn load(uri: &TokenUri) -> Result<Module, TokenError> {
        let place = uri.module.display();
        let wrong = |why: String| {
            let text = format!("{place}: the PKCS#11 module cannot be loaded: {why}");
            let remedy = "name the shared library of the token's vendor in module-path, such as \
                          /usr/lib/softhsm/libsofthsm2.so or /usr/lib/x86_64-linux-gnu/opensc-pkcs11.so";
            TokenError::new(Fault::Module, text, remedy)
        };
        let status = std::fs::metadata(&uri.module).map_err(|error| wrong(error.to_string()))?;
        if !status.is_file() {
            return Err(wrong("it is no file".to_owned()));
        }
        let own = rustix::process::geteuid().as_raw();
        if (status.uid() != 0 && status.uid() != own) || status.mode() & 0o022 != 0 {
            return Err(TokenError::new(
                Fault::Module,
                format!("{place}: the PKCS#11 module belongs to another user, or others may write it"),
                "its code runs with the rights of this command: let it belong to root, and let nobody else write it",
            ));
        }
        let context = Pkcs11::new(&uri.module).map_err(|error| wrong(error.to_string()))?;
        context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).map_err(|error| {
            let text = format!("{place}: the PKCS#11 module does not start: {}", said(&error));
            TokenError::new(
                Fault::Module,
                text,
                "look at its own configuration, and at the service that it talks to (pcscd)",
            )
        })?;
        Ok(Module { context: Some(context) })
    }

    fn context(&self) -> Result<&Pkcs11, TokenError> {
        self.context.as_ref().ok_or_else(|| crate::seal::cannot("use a module that was finalised"))
    }

    /// A session with the one token that is as the URI says.
    pub(super) fn session(&self, uri: &TokenUri) -> Result<Session, TokenError> {
        let (slot, _) = self.token(uri)?;
        self.context()?.open_ro_session(slot).map_err(|error| asked(uri, "no session is opened", &error))
    }

    fn token(&self, uri: &TokenUri) -> Result<(Slot, TokenInfo), TokenError> {
        let context = self.context()?;
        let slots =
            context.get_slots_with_token().map_err(|error| asked(uri, "no slots are listed", &error))?;
        let mut found = Vec::new();
        let mut seen = Vec::new();
        for slot in slots {
            let Ok(info) = context.get_token_info(slot) else { continue };
            if !info.token_initialized() {
                continue;
            }
            seen.push(format!("token={} serial={}", quoted(info.label()), quoted(info.serial_number())));
            if fits(uri, slot, &info) {
                found.push((slot, info));
            }
        }
        match found.len() {
            1 => found.pop().ok_or_else(|| crate::seal::cannot("count")),
            number => {
                let what = if number == 0 { "no token is" } else { "more than one token is" };
                let seen = if seen.is_empty() { "none".to_owned() } else { seen.join("; ") };
                let text = format!(
                    "{what} as the URI says ({}); {} shows: {seen}",
                    uri.token_words(),
                    uri.module.display()
                );
                let remedy = "insert the token, or name it by token= or serial= in the URI";
                Err(TokenError::new(Fault::Token, text, remedy))
            }
        }
    }

    /// Log in to the token. The PIN is tried once.
    pub(super) fn log_in(
        &self,
        session: &Session,
        uri: &TokenUri,
        pin: Option<&Pin>,
    ) -> Result<(), TokenError> {
        let (_, info) = self.token(uri)?;
        let token = uri.token_words();
        if !info.login_required() && pin.is_none() {
            return Ok(());
        }
        if info.user_pin_locked() {
            let text = format!("the PIN of the token ({token}) is locked");
            return Err(TokenError::new(Fault::Pin, text, "unlock it with its vendor's tools"));
        }
        if pin.is_none() && !info.protected_authentication_path() {
            let text = format!("the token ({token}) asks for a PIN, and none is given");
            return Err(TokenError::new(
                Fault::Pin,
                text,
                "give it by a descriptor, as in: --pin-fd 3 3<PINFILE",
            ));
        }
        match session.login(UserType::User, pin.map(Pin::auth)) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(error) => Err(self.no_login(uri, &error)),
        }
    }

    fn no_login(&self, uri: &TokenUri, error: &Error) -> TokenError {
        let token = uri.token_words();
        // What the token says now of further attempts.
        let info = self.token(uri).ok().map(|(_, info)| info);
        let left = match info {
            Some(info) if info.user_pin_locked() => "; it is locked now",
            Some(info) if info.user_pin_final_try() => "; the next wrong one locks it",
            Some(info) if info.user_pin_count_low() => "; further wrong ones lock it",
            _ => "",
        };
        match error {
            Error::Pkcs11(
                RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange | RvError::PinLocked,
                _,
            ) => {
                let text = format!("the token ({token}) refuses the PIN{left} ({})", said(error));
                TokenError::new(
                    Fault::Pin,
                    text,
                    "give the PIN of the token's user; it was tried once, and no file was used up",
                )
            }
            error => asked(uri, "nobody is logged in", error),
        }
    }
}

/// Whether a token is as a URI says (RFC 7512 section 2.6: equal octets).
fn fits(uri: &TokenUri, slot: Slot, info: &TokenInfo) -> bool {
    let same = |wanted: &Option<String>, is: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted == is.trim_end_matches([' ', '\0']))
    };
    same(&uri.token, info.label())
        && same(&uri.manufacturer, info.manufacturer_id())
        && same(&uri.serial, info.serial_number())
        && same(&uri.model, info.model())
        && uri.slot.is_none_or(|wanted| wanted == slot.id())
}

/// The module's answer in few words: the function and the code, as PKCS#11 names them.
pub(super) fn said(error: &Error) -> String {
    match error {
        Error::Pkcs11(code, function) => format!("C_{function:?} answers {code:?}"),
        other => other.to_string(),
    }
}

/// A module that did not answer as it should.
pub(super) fn asked(uri: &TokenUri, what: &str, error: &Error) -> TokenError {
    let text = format!("the token ({}) does not answer, so {what}: {}", uri.token_words(), said(error));
    TokenError::new(Fault::Token, text, "look at the token with its vendor's tools")
}
