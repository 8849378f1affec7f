//! The token estimate, held against tiktoken's o200k_base for every kind of text, and its promises as properties.
//!
//! None of these texts was used to fit the weights, except that the recorded conversations were, by half. A tolerance
//! is for the sum over the whole text, in per cent. What `examples/fit_tokens.rs` prints is the better measure: it
//! has a thousand times the text.

use std::fmt::Write;
use std::path::Path;

use context_compaction::tokens::{HEAVIEST, estimate, estimate_json_string};
use proptest::prelude::*;
use serde_json::Value;

const CONVERSATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/conversations");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Error of the estimate in per cent. Text that looks like a special token counts as text.
fn error(text: &str) -> f64 {
    let tokens = tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len();
    100.0 * (estimate(text.as_bytes()) as f64 / tokens as f64 - 1.0)
}

/// Checks kinds of text: name, text, tolerance in per cent. Shows all errors, then fails on those out of bounds.
fn check(kinds: &[(&str, String, f64)]) {
    let mut out_of_bounds = Vec::new();
    for (name, text, tolerance) in kinds {
        let error = error(text);
        println!("{name}: {} bytes, {error:+.1} % (tolerance {tolerance} %)", text.len());
        if error.abs() > *tolerance {
            out_of_bounds.push(format!("{name}: {error:+.1} %, tolerance {tolerance} %"));
        }
    }
    assert!(out_of_bounds.is_empty(), "{out_of_bounds:#?}");
}

#[test]
fn source_code() {
    check(&[
        ("rust, this repository", own_source(), 10.0),
        ("python", PYTHON.to_owned(), 10.0),
        ("javascript", JAVASCRIPT.to_owned(), 10.0),
    ]);
}

#[test]
fn machine_text() {
    check(&[
        ("logs", lines(300, log_line), 10.0),
        ("json rows", lines(300, json_row), 10.0),
        ("listings", lines(300, listing_line), 10.0),
        ("base64", lines(100, |dice| dice.text(100, BASE64)), 5.0),
        ("hexadecimal", lines(200, |dice| dice.text(64, HEX)), 5.0),
    ]);
}

#[test]
fn prose() {
    check(&[
        ("english", ENGLISH.to_owned(), 10.0),
        ("portuguese", PORTUGUESE.to_owned(), 10.0),
        ("chinese", CHINESE.to_owned(), 10.0),
        ("japanese", JAPANESE.to_owned(), 10.0),
    ]);
}

#[test]
fn special_tokens_are_text_like_any_other() {
    let names = ["endoftext", "im_start", "im_end", "fim_prefix", "endofprompt", "tool_call"];
    let mut transcript = String::new();
    for (paragraph, role) in ENGLISH.split("\n\n").zip(["system", "user", "assistant", "user"]) {
        write!(transcript, "<|im_start|>{role}\n{paragraph}<|im_end|>\n").unwrap();
    }
    check(&[
        ("transcript with special tokens", transcript, 10.0),
        // Wide, because `<|` and `|>` are two tokens each here and stand in no other text this densely.
        ("special tokens alone", lines(100, |dice| format!("<|{}|>", dice.pick(&names))), 35.0),
    ]);
}

#[test]
fn recorded_tool_results() {
    if !Path::new(CONVERSATIONS).exists() {
        println!("SKIPPED: {CONVERSATIONS} is not here; it holds the recorded conversations");
        return;
    }
    let kinds = ["cc-ecli-3aa278c8-s0", "cx-egsy-79aa4e9d-s0", "lm-88ccea26"];
    check(&kinds.map(|name| (name, recorded_results(name), 10.0)));
}

/// The beginnings of the tool results of one conversation, 60 kB in all: tiktoken is slow in a debug build.
fn recorded_results(name: &str) -> String {
    let path = format!("{CONVERSATIONS}/{name}.json");
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let conversation: Value = serde_json::from_slice(&file).unwrap();
    let mut results = String::new();
    for message in conversation["messages"].as_array().unwrap() {
        let blocks = message["content"].as_array();
        let mut candidates = vec![&message["output"]];
        candidates.extend(blocks.into_iter().flatten().map(|block| &block["content"]));
        if message["role"] == "tool" {
            candidates.push(&message["content"]);
        }
        for text in candidates.into_iter().filter_map(Value::as_str) {
            results.extend(text.chars().take(4000));
            results.push('\n');
        }
        if results.len() > 60_000 {
            break;
        }
    }
    assert!(results.len() > 10_000, "{name} holds {} bytes of results", results.len());
    results
}

/// The files of `src/` itself, 60 kB at most.
fn own_source() -> String {
    let mut files: Vec<_> = std::fs::read_dir(SOURCES).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    let mut text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.truncate(text.floor_char_boundary(60_000));
    text
}

proptest! {
    #[test]
    fn any_bytes_are_tolerated(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let most = HEAVIEST * bytes.len() as u64;
        prop_assert!(estimate(&bytes) <= most);
        // No escape is shorter than the character that it stands for.
        prop_assert!(estimate_json_string(&bytes) <= most);
    }

    /// In 1/1024ths of a token, joining changes the weight of one byte, by at most `HEAVIEST`; each of the three
    /// figures is off by at most half a token by rounding. The difference is a whole number below `HEAVIEST` + 1.5.
    #[test]
    fn joining_texts_moves_the_estimate_by_a_few_tokens(left: Vec<u8>, right: Vec<u8>) {
        let joined = estimate(&[left.as_slice(), &right].concat());
        let apart = estimate(&left) + estimate(&right);
        prop_assert!(joined.abs_diff(apart) <= HEAVIEST + 1, "{joined} joined, {apart} apart");
    }

    #[test]
    fn a_json_string_counts_as_what_it_stands_for(text in escape_rich_text()) {
        let expected = estimate(text.as_bytes());
        let literal = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(estimate_json_string(between_quotes(&literal)), expected, "{}", literal);
        let ascii = escape_everything(&text);
        prop_assert_eq!(serde_json::from_str::<String>(&ascii).unwrap(), text);
        prop_assert_eq!(estimate_json_string(between_quotes(&ascii)), expected, "{}", ascii);
    }
}

fn escape_rich_text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec!['"', '\\', '/', '\n', '\r', '\t', '\u{8}', '\u{c}', '\0', 'u', '─', '😀']);
    prop::collection::vec(prop_oneof![special, any::<char>()], 0..200).prop_map(String::from_iter)
}

fn between_quotes(literal: &str) -> &[u8] {
    literal.as_bytes().strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap()
}

/// A JSON string with every character as `\uXXXX`, as a client may write it.
fn escape_everything(text: &str) -> String {
    let mut literal = String::from("\"");
    for (at, unit) in text.encode_utf16().enumerate() {
        match at % 2 {
            0 => write!(literal, "\\u{unit:04x}").unwrap(),
            _ => write!(literal, "\\u{unit:04X}").unwrap(),
        }
    }
    literal + "\""
}

// ---- texts

const HEX: &[u8] = b"0123456789abcdef";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const WORDS: [&str; 16] = [
    "scheduler",
    "volume",
    "gateway",
    "replica",
    "invoice",
    "customer",
    "checkout",
    "metrics",
    "pod",
    "lease",
    "route",
    "secret",
    "parser",
    "snapshot",
    "migration",
    "webhook",
];

/// A multiply-with-carry generator: the same texts in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = 0xffff_da61 * (self.0 & 0xffff_ffff) + (self.0 >> 32);
        (self.0 & 0xffff_ffff) % sides
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len() as u64) as usize]
    }

    fn word(&mut self) -> &'static str {
        self.pick(&WORDS)
    }

    fn text(&mut self, length: usize, alphabet: &[u8]) -> String {
        (0..length).map(|_| char::from(alphabet[self.roll(alphabet.len() as u64) as usize])).collect()
    }
}

fn lines(count: usize, line: impl Fn(&mut Dice) -> String) -> String {
    let mut dice = Dice(0x2025_1130);
    (0..count).map(|_| line(&mut dice) + "\n").collect()
}

fn log_line(d: &mut Dice) -> String {
    let clock = format!("{:02}:{:02}:{:02}.{:06}", d.roll(24), d.roll(60), d.roll(60), d.roll(1_000_000));
    let (word, other, thread) = (d.word(), d.word(), d.roll(90_000));
    match d.roll(3) {
        0 => format!(
            "I0612 {clock} {thread:>7} {word}.go:{}] \"Syncing {other}\" key=\"prod/{word}-{}\"",
            d.roll(900),
            d.roll(40)
        ),
        1 => format!("{clock} [{thread}] warning: {word} took {} ms, {other} still pending", d.roll(9000)),
        _ => format!(
            "2026/02/{:02} {clock} {word}: dial tcp 192.168.{}.{}:5432: connection refused",
            1 + d.roll(28),
            d.roll(256),
            d.roll(256)
        ),
    }
}

fn json_row(d: &mut Dice) -> String {
    let (word, other) = (d.word(), d.word());
    match d.roll(2) {
        0 => format!(
            r#"{{"key": "{word}-{}", "value": {}.{}, "labels": {{"{other}": "{}"}}, "ts": 17{:08}}},"#,
            d.roll(100),
            d.roll(1000),
            d.roll(10),
            d.word(),
            d.roll(100_000_000)
        ),
        _ => format!(
            r#"{{"sku":"{}","qty":{},"total":{}.{:02},"{word}":{{"ok":true,"{other}":[{},{}]}}}}"#,
            d.text(8, HEX),
            d.roll(50),
            d.roll(5000),
            d.roll(100),
            d.roll(10),
            d.roll(1000)
        ),
    }
}

fn listing_line(d: &mut Dice) -> String {
    let (word, other, kind) = (d.word(), d.word(), d.pick(&["go", "tsx", "py", "rs", "sql", "html"]));
    match d.roll(3) {
        0 => format!(
            "drwxr-xr-x  {} ci  staff  {:>6} 2026-01-{:02} 10:{:02} {word}-{other}",
            d.roll(9),
            d.roll(99_999),
            1 + d.roll(28),
            d.roll(60)
        ),
        1 => format!("internal/{word}/{other}_test.{kind}:{}:{}: return {word}.New({other})", d.roll(900), d.roll(40)),
        _ => format!(" M services/{word}/{other}.{kind}"),
    }
}

const PYTHON: &str = r#"
import asyncio
import dataclasses
from typing import Iterable, Optional


@dataclasses.dataclass(frozen=True)
class Reservation:
    """A table booked for a party, in local time."""

    guest: str
    seats: int
    starts_at: float
    note: Optional[str] = None

    def overlaps(self, other: "Reservation", length: float = 5400.0) -> bool:
        return abs(self.starts_at - other.starts_at) < length


class Restaurant:
    def __init__(self, tables: Iterable[int]):
        self._tables = sorted(tables)
        self._booked: dict[int, list[Reservation]] = {}
        self._lock = asyncio.Lock()

    async def book(self, wanted: Reservation) -> int:
        async with self._lock:
            for number, seats in enumerate(self._tables):
                if seats < wanted.seats:
                    continue
                taken = self._booked.setdefault(number, [])
                if not any(r.overlaps(wanted) for r in taken):
                    taken.append(wanted)
                    return number
        raise LookupError(f"no table for {wanted.seats} at {wanted.starts_at:.0f}")

    def cancel(self, guest: str) -> int:
        removed = 0
        for number, taken in self._booked.items():
            kept = [r for r in taken if r.guest != guest]
            removed += len(taken) - len(kept)
            self._booked[number] = kept
        return removed


def test_second_party_gets_the_larger_table():
    house = Restaurant([2, 4, 8])
    first = asyncio.run(house.book(Reservation("Ito", 2, 0.0)))
    second = asyncio.run(house.book(Reservation("Silva", 2, 60.0)))
    assert (first, second) == (0, 1)
    assert house.cancel("Ito") == 1
"#;

const JAVASCRIPT: &str = r#"
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';

const DEFAULTS = { port: 8080, retries: 3, backoffMs: 250 };

export async function fetchWithRetry(url, options = {}) {
  const { retries, backoffMs } = { ...DEFAULTS, ...options };
  let lastError;
  for (let attempt = 0; attempt <= retries; attempt++) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
      if (!response.ok) {
        throw new Error(`unexpected status ${response.status} from ${url}`);
      }
      return await response.json();
    } catch (error) {
      lastError = error;
      await new Promise((resolve) => setTimeout(resolve, backoffMs * 2 ** attempt));
    }
  }
  throw lastError;
}

const routes = new Map();

routes.set('/health', (request, reply) => {
  reply.writeHead(200, { 'content-type': 'text/plain' });
  reply.end('ok\n');
});

routes.set('/settings', async (request, reply) => {
  const raw = await readFile(new URL('./settings.json', import.meta.url), 'utf8');
  const settings = JSON.parse(raw);
  const visible = Object.entries(settings).filter(([key]) => !key.startsWith('_'));
  reply.writeHead(200, { 'content-type': 'application/json' });
  reply.end(JSON.stringify(Object.fromEntries(visible), null, 2));
});

export function start({ port = DEFAULTS.port } = {}) {
  const server = createServer((request, reply) => {
    const handler = routes.get(request.url.split('?')[0]);
    if (handler === undefined) {
      reply.writeHead(404).end();
      return;
    }
    Promise.resolve(handler(request, reply)).catch((error) => {
      console.error('request failed', request.url, error);
      reply.writeHead(500).end();
    });
  });
  return new Promise((resolve) => server.listen(port, () => resolve(server)));
}
"#;

const ENGLISH: &str = "\
The ferry left an hour late because the captain refused to sail before the fog had lifted. We sat on our suitcases \
along the quay, drinking bitter coffee from paper cups, and watched the gulls quarrel over a piece of bread. A woman \
from Trondheim told us that she had made this crossing every summer since 1974, first with her parents, then with her \
husband, and now alone; she said it the way other people mention the weather.

In the third quarter the company reported revenue of $4.2 billion, slightly above what analysts had expected. Growth \
came mainly from subscriptions, while hardware sales declined for the fifth time in a row. Management blamed the \
stronger dollar and a shortage of components, and warned that margins would remain under pressure until the new plant \
in Arizona begins production. Shares fell 3% in early trading before recovering most of the loss.

Before you change the retry logic, I would look at what the client does when the connection drops halfway through a \
response. At the moment it treats a truncated body as a success, so the caller never notices that anything is missing. \
I've added a failing test that reproduces this; with the length check in place it passes, and none of the other tests \
needed to change. Let me know whether you'd rather raise an error here or return what has arrived so far.

Glaciers shape a valley differently than rivers do. Where running water cuts a narrow notch, the slow weight of ice \
scours the floor and steepens the walls, leaving behind the broad trough that geologists recognise at once. Boulders \
carried for miles come to rest wherever the melting edge happened to stand, and some of them, balanced on bare rock, \
look as though somebody had placed them there by hand.
";

const PORTUGUESE: &str = "\
A biblioteca do bairro reabriu depois de dois anos de reformas. As estantes foram trocadas, o telhado já não pinga sobre \
os dicionários, e no lugar do velho depósito surgiu uma sala de leitura com janelas até o chão. A bibliotecária, dona \
Conceição, faz questão de mostrar a cada visitante o cantinho das crianças, onde as almofadas têm forma de bichos.

O relatório indica que a falha ocorreu durante a migração do banco de dados, às 3h40 da madrugada. Um dos scripts \
supunha que a coluna de endereços nunca estivesse vazia, o que não era verdade para cerca de dois mil clientes antigos. \
A equipe restaurou a cópia de segurança, corrigiu a validação e repetiu o procedimento na noite seguinte, sem incidentes.

Meu irmão mais velho sempre quis ser marinheiro, embora enjoasse até em canoa. Passava horas desenhando navios no verso \
das contas de luz, com mastros tortos e nomes de mulheres que ele inventava. Quando finalmente embarcou, aos vinte e \
três anos, mandou um cartão-postal de Salvador que dizia apenas: \"o mar é menor do que eu pensava\".

Segundo o Ministério da Saúde, a campanha de vacinação contra a gripe começa no dia 8 de abril e vai até o fim de maio. \
Têm prioridade os idosos, as gestantes, os profissionais de saúde e as pessoas com doenças crônicas. Quem perder o prazo \
poderá procurar os postos em junho, desde que ainda haja doses disponíveis.
";

const CHINESE: &str = "\
我们住的那条巷子很窄，两个人撑伞相遇，总有一个要侧过身去。巷口有家修鞋铺，老师傅姓陈，一年四季戴着一顶灰色的帽子。他话不多，\
手里的锤子却从不停歇，街坊邻居路过时，都习惯朝里面点点头。后来铺子关了门，门板上贴着一张红纸，写着“回乡养老”四个字。
本周末，受强冷空气影响，华北大部分地区气温将下降八到十度，局部有小雪。气象台提醒市民注意添衣保暖，出行尽量选择公共交通。\
高速公路管理部门已经准备了三百吨融雪剂，并要求各收费站安排人员二十四小时值班，以保证道路畅通。
这个接口在并发较高的时候会返回重复的数据。我查看了相关代码，发现缓存失效之后，多个线程会同时去查询数据库，然后各自写回结果。\
建议在这里加一把锁，或者改用单次加载的方式。测试脚本我已经写好了，放在仓库的工具目录下，运行一次大约需要两分钟。
考古队在河岸边发现了一处新石器时代的遗址，出土陶器、石斧等文物一百余件。专家认为，这一发现为研究当地早期农业的起源提供了重要线索。\
由于汛期临近，发掘工作将暂时停止，遗址表面会覆盖防水布，等到秋天再继续进行。
";

const JAPANESE: &str = "\
駅前の商店街には、昔ながらの豆腐屋が一軒だけ残っている。朝の四時には明かりがつき、湯気の向こうで店主が黙々と働いている姿が\
見える。息子さんは東京で会社勤めをしており、店を継ぐ気はないらしい。それでも店主は、体が動くうちは続けるつもりだと笑う。
週末は強い寒気の影響で、日本海側を中心に大雪となるおそれがあります。気象庁は、不要不急の外出を控えるとともに、停電や雪崩に\
十分注意するよう呼びかけています。高速道路では通行止めが予想されるため、最新の交通情報を確認してください。
このAPIは、同時アクセスが多いときに重複したデータを返すことがあります。コードを調べてみると、キャッシュの期限が切れた直後に、\
複数のスレッドが一斉にデータベースへ問い合わせていました。ロックを追加するか、読み込みを一回にまとめる方法をお勧めします。
川沿いの工事現場から、縄文時代のものとみられる土器や石器が百点以上見つかった。専門家によれば、この地域の集落の成り立ちを知る\
うえで貴重な手がかりになるという。梅雨を前に調査はいったん中断され、秋に再開される予定だ。
";
