//! The engine's address: `http(s)://host[:port][/path]`, and nothing that could hide a key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::secret;

/// Where the engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `host:port`; the port is always written, a name is in lower case, an IPv6 address in brackets.
    pub authority: String,
    /// Path of the route, beginning with a slash.
    pub path: String,
    /// Whether the endpoint wants TLS. Envoy's cluster does it; the filter itself only speaks plain HTTP.
    pub tls: bool,
}

/// The route that every System One server has.
const DEFAULT_PATH: &str = "/v1/systemone";
/// Longest endpoint, in bytes.
const MAX_LEN: usize = 2_048;
/// Longest host name and label, in bytes (RFC 1035).
const MAX_HOST: usize = 253;
const MAX_LABEL: usize = 63;
/// Ends of names that only resolve inside an operator's own network.
const LOCAL_SUFFIXES: &[&str] = &[".svc", ".cluster.local", ".local", ".internal"];

impl Endpoint {
    /// Reads an endpoint. The message never repeats any part of it.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_LEN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("must be a URL of visible ASCII characters, at most 2048");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("must begin with http:// or https://"),
        };
        if rest.contains(['?', '#']) {
            return Err("must have no query and no fragment; a key goes through api_key_env");
        }
        let (authority, path) = match rest.find('/').and_then(|at| rest.split_at_checked(at)) {
            Some((authority, path)) => (authority, path),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err("must have no user or password before the host; a key goes through api_key_env");
        }
        Ok(Self { authority: parse_authority(authority, if tls { 443 } else { 80 })?, path: parse_path(path)?, tls })
    }

    /// The host without port and brackets.
    pub fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether the host is the operator's own by its address or name: loopback, private and unique-local addresses,
    /// names without dots and names under suffixes that are never public. Link-local is not: cloud metadata lives there.
    pub fn is_local(&self) -> bool {
        let host = self.host();
        match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => is_local_v4(address),
            Ok(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
                Some(mapped) => is_local_v4(mapped),
                None => address.is_loopback() || address.is_unique_local(),
            },
            Err(_) => !host.contains('.') || LOCAL_SUFFIXES.iter().any(|suffix| host.ends_with(suffix)),
        }
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.is_loopback() || address.is_private()
}

fn parse_authority(text: &str, default_port: u16) -> Result<String, &'static str> {
    const V6: &str = "must have a valid IPv6 address, without zone, between [ and ]";
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or(V6)?;
        let address: Ipv6Addr = address.parse().map_err(|_| V6)?;
        return Ok(format!("[{address}]:{}", parse_port(port, default_port)?));
    }
    let (host, port) = match text.find(':').and_then(|at| text.split_at_checked(at)) {
        Some((host, port)) => (host, port),
        None => (text, ""),
    };
    if port.matches(':').count() > 1 {
        return Err("must have an IPv6 address between [ and ]");
    }
    check_host(host)?;
    Ok(format!("{}:{}", host.to_ascii_lowercase(), parse_port(port, default_port)?))
}

/// `port` is empty or begins with the colon.
fn parse_port(port: &str, default_port: u16) -> Result<u16, &'static str> {
    if port.is_empty() {
        return Ok(default_port);
    }
    let digits = port.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits
        .and_then(|digits| digits.parse().ok())
        .filter(|port| *port > 0)
        .ok_or("must have a port between 1 and 65535 after the colon")
}

fn check_host(host: &str) -> Result<(), &'static str> {
    const NAME: &str = "must have a host: a name of letters, digits, - and _ between dots, an IPv4 address, or an IPv6 \
                        address between [ and ]";
    if host.is_empty() || host.len() > MAX_HOST || !host.split('.').all(is_label) {
        return Err(NAME);
    }
    // A name whose last label is a number is an address to some resolvers (127.1, 2130706433, 0x7f000001) and a name to
    // others; only the plain form means the same to all.
    let last = host.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X");
    if number && host.parse::<Ipv4Addr>().is_err() {
        return Err("must have an IPv4 address of four decimal numbers where the host ends in a number");
    }
    Ok(())
}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_LABEL).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn parse_path(path: &str) -> Result<String, &'static str> {
    if path.is_empty() || path == "/" {
        return Ok(DEFAULT_PATH.to_owned());
    }
    if path.contains(['"', '<', '>', '\\', '^', '`', '{', '|', '}']) {
        return Err("must have a path of URL characters");
    }
    let escapes = path.split('%').skip(1);
    let is_escape = |after: &str| after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !escapes.into_iter().all(is_escape) {
        return Err("must have two hexadecimal digits after each % of its path");
    }
    if secret::holds_secret(path) {
        return Err(
            "must not hold a key in its path, and something there looks like one; a key goes through api_key_env",
        );
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_normalised() {
        for (text, authority, path, tls) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", "/v1/systemone", false),
            ("http://127.0.0.1:8080/", "127.0.0.1:8080", "/v1/systemone", false),
            ("http://engine", "engine:80", "/v1/systemone", false),
            ("https://Engine.Example.COM", "engine.example.com:443", "/v1/systemone", true),
            ("HTTPS://x.y/api/alpha/decisions", "x.y:443", "/api/alpha/decisions", true),
            ("http://[::1]", "[::1]:80", "/v1/systemone", false),
            ("http://[0:0::1]:9/v1/", "[::1]:9", "/v1/", false),
            ("http://[FD00::A]:65535/a%20b", "[fd00::a]:65535", "/a%20b", false),
            ("http://my_engine:1//x@y:z", "my_engine:1", "//x@y:z", false),
            ("http://a:00080/x", "a:80", "/x", false),
        ] {
            let wanted = Endpoint { authority: authority.to_owned(), path: path.to_owned(), tls };
            assert_eq!(Endpoint::parse(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_for_its_reason() {
        for (text, reason) in [
            ("", "begin with http"),
            ("127.0.0.1:8080", "begin with http"),
            ("ftp://h", "begin with http"),
            ("http:/h", "begin with http"),
            ("://h", "begin with http"),
            (" http://h", "visible ASCII"),
            ("http://h/a b", "visible ASCII"),
            ("http://h\n", "visible ASCII"),
            ("http://é", "visible ASCII"),
            ("http://h?key=1", "no query"),
            ("http://h/x#y", "no query"),
            ("http://h/#", "no query"),
            ("http://user:pass@h", "no user or password"),
            ("http://@h", "no user or password"),
            ("http://", "must have a host"),
            ("http:///x", "must have a host"),
            ("http://:80", "must have a host"),
            ("http://a..b", "must have a host"),
            ("http://a.", "must have a host"),
            ("http://-a", "must have a host"),
            ("http://a-.b", "must have a host"),
            ("http://a%41", "must have a host"),
            ("http://a,b", "must have a host"),
            ("http://a\\b", "must have a host"),
            ("http://h:", "port between"),
            ("http://h:0", "port between"),
            ("http://h:65536", "port between"),
            ("http://h:+80", "port between"),
            ("http://h:8x", "port between"),
            ("http://[::1]x", "port between"),
            ("http://[::1]:", "port between"),
            ("http://::1", "IPv6 address between"),
            ("http://a:1:2", "IPv6 address between"),
            ("http://[::1", "valid IPv6"),
            ("http://[]", "valid IPv6"),
            ("http://[fe80::1%eth0]", "valid IPv6"),
            ("http://[127.0.0.1]", "valid IPv6"),
            ("http://127.1", "four decimal numbers"),
            ("http://2130706433", "four decimal numbers"),
            ("http://0x7f000001", "four decimal numbers"),
            ("http://127.0.0.01", "four decimal numbers"),
            ("http://256.0.0.1", "four decimal numbers"),
            ("http://h/a|b", "URL characters"),
            ("http://h/%", "two hexadecimal digits"),
            ("http://h/%4", "two hexadecimal digits"),
            ("http://h/%zz", "two hexadecimal digits"),
            ("http://h/sk-canary/x", "key in its path"),
        ] {
            let message = Endpoint::parse(text).expect_err(text);
            assert!(message.contains(reason), "{text}: {message}");
        }
        assert!(Endpoint::parse(&format!("http://{}", "a".repeat(64))).is_err());
        assert!(Endpoint::parse(&format!("http://{}", "a.".repeat(126) + "aa")).is_err());
        assert!(Endpoint::parse(&format!("http://h/{}", "a".repeat(2_048))).is_err());
    }

    #[test]
    fn local_hosts_are_those_that_only_the_operator_reaches() {
        let is_local = |host: &str| Endpoint::parse(&format!("http://{host}/x")).unwrap().is_local();
        for host in [
            "localhost",
            "LOCALHOST:1",
            "engine",
            "my_engine:8080",
            "127.0.0.1",
            "127.255.255.254",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "[::1]",
            "[fc00::1]",
            "[fdff::1]:8080",
            "[::ffff:10.0.0.1]",
            "engine.ns.svc",
            "engine.ns.svc.cluster.local",
            "mac.local",
            "vm.corp.internal",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "example.com",
            "api.x.ai:443",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "11.0.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "[::]",
            "[fe80::1]",
            "[2001:db8::1]",
            "[fe00::1]",
            "[::ffff:8.8.8.8]",
            "svc.example.com",
            "evilsvc.com",
            "x.local.example.com",
            "a.mylocal",
            "10.0.0.1.nip.io",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
