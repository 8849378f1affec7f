//! Texts made from a fixed seed: logs, rows, listings, encodings.

use super::Corpus;

/// SplitMix64 (Steele, Lea, Flood 2014): the same stream on every machine, for every version of every crate.
pub struct Dice(u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.roll(list.len() as u64) as usize]
    }

    pub fn random(&mut self, length: usize, alphabet: &[u8]) -> String {
        (0..length).map(|_| char::from(alphabet[self.roll(alphabet.len() as u64) as usize])).collect()
    }

    pub fn hex(&mut self, length: usize) -> String {
        self.random(length, b"0123456789abcdef")
    }

    pub fn base64(&mut self, length: usize) -> String {
        self.random(length, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    }

    pub fn noun(&mut self) -> &'static str {
        self.pick(&[
            "request", "response", "worker", "session", "user", "order", "item", "payment", "cache", "token", "stream",
            "buffer", "index", "config", "client", "server", "queue", "batch", "upload", "profile", "account",
            "message", "event", "report", "schema", "table", "bucket", "shard",
        ])
    }

    pub fn verb(&mut self) -> &'static str {
        self.pick(&[
            "started",
            "finished",
            "failed",
            "accepted",
            "rejected",
            "retried",
            "closed",
            "opened",
            "created",
            "deleted",
            "updated",
            "loaded",
            "flushed",
            "connected",
            "skipped",
            "resolved",
        ])
    }

    pub fn date(&mut self) -> String {
        format!("2025-{:02}-{:02}", 1 + self.roll(12), 1 + self.roll(28))
    }

    pub fn time(&mut self) -> String {
        format!("{:02}:{:02}:{:02}", self.roll(24), self.roll(60), self.roll(60))
    }
}

/// Makes one line of a class.
pub type Line = fn(&mut Dice) -> String;

pub fn add_generated(corpus: &mut Corpus) {
    let kinds: [(&str, Line); 6] = [
        ("logs", log_line),
        ("json rows", json_row),
        ("listings", listing_line),
        ("csv", csv_line),
        ("hex", hex_line),
        ("base64", base64_line),
    ];
    for (class, line) in kinds {
        for seed in 1..=4 {
            let mut dice = Dice(seed);
            let mut text = String::new();
            while text.len() < 50_000 {
                text.push_str(&line(&mut dice));
                text.push('\n');
            }
            corpus.entry(class.to_owned()).or_default().push(text);
        }
    }
}

pub fn log_line(d: &mut Dice) -> String {
    let level = d.pick(&["INFO", "DEBUG", "WARN", "ERROR", "INFO"]);
    let (date, time, noun, other, verb) = (d.date(), d.time(), d.noun(), d.noun(), d.verb());
    match d.roll(5) {
        0 => {
            let (ms, thread, id, took) = (d.roll(1000), d.roll(16), d.hex(8), d.roll(5000));
            format!("{date}T{time}.{ms:03}Z {level} [{noun}-{thread}] {other} {verb} id={id} took={took}ms")
        }
        1 => {
            let (host, net, id, bytes) = (d.roll(256), d.roll(256), d.roll(100_000), d.roll(50_000));
            let request = format!("GET /api/v1/{noun}s/{id} HTTP/1.1");
            format!("10.{net}.7.{host} - - [07/Jan/2025:{time} +0000] \"{request}\" 200 {bytes} \"-\" \"curl/8.5.0\"")
        }
        2 => {
            let (id, attempt) = (d.roll(1_000_000), d.roll(5));
            format!("{date}T{time} {level} {noun}::{other}: {verb} {other}_id={id} attempt={attempt} error=None")
        }
        3 => {
            let (day, host, pid, bytes) = (1 + d.roll(28), d.roll(40), d.roll(65_536), d.roll(1 << 20));
            format!("Jan {day:2} {time} host-{host} {noun}d[{pid}]: {other} {verb}: {bytes} bytes")
        }
        _ => {
            let (ms, seconds, part) = (d.roll(1000), d.roll(60), d.roll(100));
            format!("[{date} {time},{ms:03}] {level:<5} com.example.{noun}.{other} - {verb} in {seconds}.{part:02}s")
        }
    }
}

pub fn json_row(d: &mut Dice) -> String {
    let (noun, other, verb) = (d.noun(), d.noun(), d.verb());
    match d.roll(3) {
        0 => {
            let (id, price, cents, active) = (d.roll(100_000), d.roll(1000), d.roll(100), d.pick(&["true", "false"]));
            let (date, time) = (d.date(), d.time());
            format!(
                r#"{{"id":{id},"name":"{noun} {other}","price":{price}.{cents:02},"active":{active},"tags":["{verb}"],"created_at":"{date}T{time}Z"}},"#
            )
        }
        1 => {
            let (id, north, east, score) = (d.hex(12), d.roll(90_000_000), d.roll(180_000_000), d.roll(10_000));
            let (north, east) = (north as f64 / 1e6, east as f64 / 1e6);
            format!(r#"{{"{noun}_id":"{id}","lat":{north:.6},"lon":-{east:.6},"score":0.{score:04},"{other}":null}}"#)
        }
        _ => {
            let (login, count, ratio) = (d.roll(1000), d.roll(10_000), d.roll(1000) as f64 / 100.0);
            let user = format!(r#"{{"login":"{noun}{login}","email":"{noun}.{other}@example.com"}}"#);
            format!(r#"{{"user": {user}, "count": {count}, "ratio": {ratio:.2}, "status": "{verb}"}},"#)
        }
    }
}

pub fn listing_line(d: &mut Dice) -> String {
    let (noun, other, verb, time) = (d.noun(), d.noun(), d.verb(), d.time());
    let extension = d.pick(&["rs", "py", "js", "ts", "go", "md", "json", "toml", "yaml", "txt"]);
    match d.roll(4) {
        0 => {
            let (bytes, month, day) = (d.roll(1 << 20), d.pick(&["Jan", "Feb", "Jun", "Nov"]), 1 + d.roll(28));
            let time = &time[..5];
            format!("-rw-r--r-- 1 root root {bytes:>8} {month} {day:>2} {time} {noun}_{other}.{extension}")
        }
        1 => format!("./src/{noun}/{other}_{verb}.{extension}"),
        2 => {
            let (line, number) = (d.roll(2000), d.roll(10));
            format!("src/{noun}/{other}.{extension}:{line}:    let {noun} = {other}.{verb}({number});")
        }
        _ => format!("{} {noun}: {} {other}", d.hex(7), d.pick(&["fix", "add", "remove", "test", "refactor"])),
    }
}

pub fn csv_line(d: &mut Dice) -> String {
    let (id, date, amount, noun) = (d.roll(100_000), d.date(), d.roll(1_000_000) as f64 / 1e3, d.noun());
    let (share, flag) = (d.roll(1000) as f64 / 10.0, d.pick(&["", "yes", "no"]));
    format!("{id},{date},{amount:.3},{noun},{share:.1},{flag}")
}

pub fn hex_line(d: &mut Dice) -> String {
    match d.roll(4) {
        0 => format!("{}  {}.bin", d.hex(64), d.noun()),
        1 => {
            let words: Vec<String> = (0..8).map(|_| d.hex(4)).collect();
            format!("{:08x}: {}", d.roll(1 << 32), words.join(" "))
        }
        2 => format!("0x{}", d.hex(40)),
        _ => format!("{}-{}-{}-{}-{}", d.hex(8), d.hex(4), d.hex(4), d.hex(4), d.hex(12)),
    }
}

pub fn base64_line(d: &mut Dice) -> String {
    match d.roll(3) {
        0 => d.base64(400),
        1 => format!(r#""data":"data:image/png;base64,{}=""#, d.base64(600)),
        _ => d.base64(76),
    }
}
