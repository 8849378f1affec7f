//! Fits the weights of `src/tokens.rs` to tiktoken's o200k_base, and measures them.
//!
//! ```sh
//! registry=$(echo ~/.cargo/registry/src/*)
//! cargo run --release --example fit_tokens -- \
//!     --source "$registry"/serde_core-1.0.229 --source "$registry"/clap_builder-4.6.7 \
//!     --source "$registry"/hyper-1.12.0 --source "$registry"/regex-syntax-0.8.12 \
//!     --source "$registry"/tokio-1.54.1 --source /usr/lib/python3.11 --source /usr/lib/node_modules/npm \
//!     --unseen perl=/usr/share/perl5 --unseen config=/etc --unseen dpkg=/var/lib/dpkg/info
//! ```
//!
//! The error table and the weights, as the Rust static, go to stdout; progress and what is missing go to stderr.
//! Every class of text weighs the same in the fit, whatever its size. Half of a class is fitted, the other half is
//! checked; a file, a program's translations or a family of conversations is never in both. The generated classes come
//! from a fixed seed. Languages are paragraphs and translations, not word lists: text drawn from lists of common words
//! has a quarter fewer tokens than real text. The paragraphs are few, so all of them are fitted; `tests/tokens.rs` has
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use context_compaction::tokens::{CLASSES, HEAVIEST, START, class, estimate};
use indicatif::ProgressBar;
use serde_json::Value;

/// Bytes of one chunk: one row of the least-squares problem.
const CHUNK: usize = 4096;
/// Weights of the estimate: one for every class after every class.
const WEIGHTS: usize = CLASSES * CLASSES;
/// What a transition weighs that the texts do not show: four bytes a token.
const PRIOR: f64 = 0.25;
/// How strongly weights are held to [`PRIOR`], against squared relative errors.
const PULL: f64 = 0.0003;
/// Weights are stored in this fraction of a token.
const UNITS_PER_TOKEN: f64 = 1024.0;

type Failure = Box<dyn std::error::Error>;

/// Fit the token weights and print their errors.
#[derive(Parser)]
struct Args {
    /// Directory of source files; each file extension becomes a class. May be repeated.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/src"))]
    source: Vec<PathBuf>,
    /// Directory of recorded conversations.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/conversations"))]
    conversations: PathBuf,
    /// Directory of gettext translations.
    #[arg(long, value_name = "DIR", default_value = "/usr/share/locale")]
    locale: PathBuf,
    /// Text files that are measured but never fitted, as NAME=FILE or NAME=DIR. May be repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = named_path)]
    unseen: Vec<(String, PathBuf)>,
}

fn named_path(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("expected NAME=PATH")?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

/// Texts by class; the texts of one class are independent of each other.
type Corpus = BTreeMap<String, Vec<String>>;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fit_tokens: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let mut trained = Corpus::new();
    add_source(&mut trained, &args.source)?;
    add_conversations(&mut trained, &args.conversations)?;
    add_generated(&mut trained);
    add_paragraphs(&mut trained);
    add_translations(&mut trained, &args.locale, &LANGUAGES)?;
    let mut unseen = Corpus::new();
    add_translations(&mut unseen, &args.locale, &OTHER_LANGUAGES)?;
    for (name, path) in &args.unseen {
        unseen.entry(name.clone()).or_default().extend(texts_under(path)?.into_iter().map(|(_, text)| text));
    }

    let trained = measure(trained);
    let mut unseen = measure(unseen);
    for class in &mut unseen {
        class.check.append(&mut class.fit);
    }
    let problems: Vec<Problem> = trained.iter().map(|class| Problem::of(&class.fit)).collect();
    let weights = solve(&problems, None, &[(PRIOR * UNITS_PER_TOKEN) as u16; WEIGHTS]);
    print_errors(&trained, &unseen, &problems, &weights);
    print_weights(&weights);
    Ok(())
}

// ---- texts from disk

/// Every readable text below `path` with its extension, in the order of their paths.
fn texts_under(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut pending = vec![path.to_owned()];
    let mut files = BTreeSet::new();
    while let Some(path) = pending.pop() {
        let kind = fs::symlink_metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if kind.is_dir() {
            let entries = fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            pending.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        } else if kind.is_file() && kind.len() < 200_000 {
            files.insert(path);
        }
    }
    let texts: Vec<_> =
        files.iter().filter_map(|file| Some((extension(file), fs::read_to_string(file).ok()?))).collect();
    if texts.is_empty() {
        return Err(format!("{}: holds no text file below 200 kB", path.display()).into());
    }
    Ok(texts)
}

fn extension(file: &Path) -> String {
    file.extension().unwrap_or_default().to_string_lossy().into_owned()
}

fn add_source(corpus: &mut Corpus, directories: &[PathBuf]) -> Result<(), Failure> {
    for directory in directories {
        for (extension, text) in texts_under(directory)? {
            let class = match extension.as_str() {
                "rs" | "py" | "md" | "json" | "toml" => extension.as_str(),
                "js" | "mjs" | "cjs" | "ts" => "js",
                _ => continue,
            };
            // Tables of foreign characters (codecs, Unicode data) are not source as people write it.
            let foreign = text.bytes().filter(|byte| !byte.is_ascii()).count();
            if text.len() > 500 && foreign < text.len() / 5 {
                corpus.entry(format!("source .{class}")).or_default().push(text);
            }
        }
    }
    Ok(())
}

/// Tool results by agent, arguments of calls, and prose; one text for each family of conversations.
fn add_conversations(corpus: &mut Corpus, directory: &Path) -> Result<(), Failure> {
    if !directory.exists() {
        eprintln!("no conversations: {} is missing; fitting without tool results and prose", directory.display());
        return Ok(());
    }
    let mut families: BTreeMap<(String, String), String> = BTreeMap::new();
    for path in files_in(directory, "json")? {
        let conversation: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let family = conversation["family"].as_str().ok_or_else(|| format!("{}: has no `family`", path.display()))?;
        let name = conversation["name"].as_str().unwrap_or_default();
        let agent = name.split('-').next().filter(|agent| ["cc", "cx"].contains(agent)).unwrap_or("other");
        let mut add = |class: &str, text: &str| {
            let all = families.entry((class.to_owned(), family.to_owned())).or_default();
            all.push_str(text);
            all.push('\n');
        };
        let results = format!("results {agent}");
        strings(&conversation["system"], &mut |text| add("prose", text));
        if conversation["tools"].is_array() {
            add("tool lists", &conversation["tools"].to_string());
        }
        for message in conversation["messages"].as_array().into_iter().flatten() {
            add_message(message, &results, &mut add);
        }
    }
    for ((class, _), text) in families {
        corpus.entry(class).or_default().push(text);
    }
    Ok(())
}

/// The files in `directory` with this extension, in the order of their names.
fn files_in(directory: &Path, wanted: &str) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| extension(path) == wanted);
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: holds no .{wanted} file", directory.display()).into());
    }
    Ok(paths)
}

/// Sorts the texts of one message, or Responses item, into classes.
fn add_message(message: &Value, results: &str, add: &mut impl FnMut(&str, &str)) {
    match message["type"].as_str().unwrap_or_default() {
        "function_call_output" | "custom_tool_call_output" => {
            return strings(&message["output"], &mut |text| add(results, text));
        }
        "function_call" => return strings(&message["arguments"], &mut |text| add("arguments", text)),
        "custom_tool_call" => return strings(&message["input"], &mut |text| add("arguments", text)),
        "reasoning" | "compaction" => return,
        _ => {}
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        strings(&call["function"]["arguments"], &mut |text| add("arguments", text));
    }
    if message["role"] == "tool" {
        return strings(&message["content"], &mut |text| add(results, text));
    }
    let Some(blocks) = message["content"].as_array() else {
        return strings(&message["content"], &mut |text| add("prose", text));
    };
    for block in blocks {
        match block["type"].as_str().unwrap_or_default() {
            "tool_result" => strings(&block["content"], &mut |text| add(results, text)),
            "tool_use" => add("arguments", &block["input"].to_string()),
            "thinking" => {}
            _ => strings(block, &mut |text| add("prose", text)),
        }
    }
}

/// A string, or the texts of a list of content blocks.
fn strings(value: &Value, visit: &mut impl FnMut(&str)) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => visit(text),
            Value::Array(blocks) => pending.extend(blocks.iter().rev()),
            Value::Object(block) => pending.extend(block.get("text")),
            _ => {}
        }
    }
}

// ---- generated texts

/// SplitMix64 (Steele, Lea, Flood 2014): the same stream on every machine, for every version of every crate.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.roll(list.len() as u64) as usize]
    }

    fn random(&mut self, length: usize, alphabet: &[u8]) -> String {
        (0..length).map(|_| char::from(alphabet[self.roll(alphabet.len() as u64) as usize])).collect()
    }

    fn hex(&mut self, length: usize) -> String {
        self.random(length, b"0123456789abcdef")
    }

    fn base64(&mut self, length: usize) -> String {
        self.random(length, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    }

    fn noun(&mut self) -> &'static str {
        self.pick(&[
            "request", "response", "worker", "session", "user", "order", "item", "payment", "cache", "token", "stream",
            "buffer", "index", "config", "client", "server", "queue", "batch", "upload", "profile", "account",
            "message", "event", "report", "schema", "table", "bucket", "shard",
        ])
    }

    fn verb(&mut self) -> &'static str {
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

    fn date(&mut self) -> String {
        format!("2025-{:02}-{:02}", 1 + self.roll(12), 1 + self.roll(28))
    }

    fn time(&mut self) -> String {
        format!("{:02}:{:02}:{:02}", self.roll(24), self.roll(60), self.roll(60))
    }
}

/// Makes one line of a class.
type Line = fn(&mut Dice) -> String;

fn add_generated(corpus: &mut Corpus) {
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

fn log_line(d: &mut Dice) -> String {
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

fn json_row(d: &mut Dice) -> String {
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

fn listing_line(d: &mut Dice) -> String {
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

fn csv_line(d: &mut Dice) -> String {
    let (id, date, amount, noun) = (d.roll(100_000), d.date(), d.roll(1_000_000) as f64 / 1e3, d.noun());
    let (share, flag) = (d.roll(1000) as f64 / 10.0, d.pick(&["", "yes", "no"]));
    format!("{id},{date},{amount:.3},{noun},{share:.1},{flag}")
}

fn hex_line(d: &mut Dice) -> String {
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

fn base64_line(d: &mut Dice) -> String {
    match d.roll(3) {
        0 => d.base64(400),
        1 => format!(r#""data":"data:image/png;base64,{}=""#, d.base64(600)),
        _ => d.base64(76),
    }
}

// ---- languages: paragraphs written for this tool, and what gettext has installed

const PORTUGUESE: &str = "\
A prefeitura anunciou ontem que a nova linha de ônibus entre o centro e o bairro da Liberdade começa a circular na próxima segunda-feira. Segundo a secretária de Transportes, Márcia Figueiredo, serão dezoito veículos, com intervalos de sete minutos nos horários de pico. Os moradores, que reclamavam da demora há mais de três anos, receberam a notícia com alguma desconfiança.
Minha avó fazia pão de queijo todos os sábados, e a cozinha inteira cheirava a polvilho. Ela não usava receita: media a farinha com a mão, provava a massa crua e dizia que faltava sal. Quando perguntávamos quanto, respondia sempre a mesma coisa: \"o suficiente\". Só depois que ela morreu percebi que nunca tínhamos anotado nada.
O serviço de autenticação devolveu o erro 503 porque o pool de conexões estava esgotado. Depois de reiniciar o processo, verifiquei os registros e encontrei dezenas de consultas lentas na tabela de pedidos. Acrescentei um índice à coluna `cliente_id`, reduzi o tempo limite para dois segundos e executei novamente os testes; todos passaram.
Nos termos do artigo 14 do Código de Defesa do Consumidor, o fornecedor responde, independentemente da existência de culpa, pela reparação dos danos causados aos consumidores por defeitos relativos à prestação dos serviços. O autor sustenta que a cobrança foi indevida e requer a devolução em dobro, acrescida de correção monetária e juros legais.
A Amazônia perdeu, no último trimestre, cerca de 1.200 quilômetros quadrados de vegetação nativa. Pesquisadores do instituto alertam que o desmatamento altera o regime de chuvas em todo o Sudeste e compromete o abastecimento de água das grandes cidades. Para o climatologista Paulo Sampaio, ainda há tempo de reverter a tendência, desde que a fiscalização seja retomada.
Se você quiser, posso refatorar a função em duas partes: uma que lê o arquivo de configuração e outra que valida os campos. Assim fica mais fácil escrever testes e entender onde está o problema. Antes de mexer no código, porém, eu gostaria de confirmar se o comportamento atual, que ignora linhas vazias, é intencional ou apenas um descuido.
O time entrou em campo desfalcado e sofreu dois gols nos primeiros vinte minutos. No intervalo, o treinador trocou o esquema, colocou o garoto Wellington pela esquerda e viu a partida mudar completamente. O empate veio aos 38, de cabeça, e a virada saiu nos acréscimos, para delírio da torcida que lotava o estádio debaixo de chuva.
Prezada senhora Almeida, agradecemos o seu contato. Verificamos que a encomenda número 48213 saiu do nosso depósito em Campinas no dia 12 e deveria ter chegado até o dia 19. Pedimos desculpas pelo transtorno e informamos que um novo envio já foi providenciado, sem qualquer custo adicional. O prazo estimado é de quatro dias úteis.
Para instalar o pacote, baixe o arquivo compactado, extraia o conteúdo em uma pasta vazia e execute o comando indicado no manual. Caso apareça a mensagem \"permissão negada\", verifique se o seu usuário pertence ao grupo correto. As opções disponíveis são exibidas com o parâmetro de ajuda; os valores padrão estão entre colchetes.
Durante o século XVIII, a descoberta de ouro em Minas Gerais atraiu milhares de portugueses e deslocou o eixo econômico da colônia para o interior. Vilas surgiram às margens dos rios, igrejas foram erguidas com uma riqueza surpreendente, e o comércio de escravizados cresceu na mesma proporção. Quando as jazidas se esgotaram, restaram a arte e a memória.
Os dados mostram que as vendas cresceram 8,4% em relação ao mesmo período do ano passado, puxadas sobretudo pelo comércio eletrônico. Em contrapartida, a margem encolheu, pois o frete e a energia ficaram mais caros. A diretoria decidiu adiar a abertura de lojas no Nordeste e rever os contratos com os fornecedores até o fim de março.
Ele atravessou a rua sem olhar, como quem já não espera nada dos carros nem do dia. Na padaria pediu um café e uma média, sentou-se junto à janela embaçada e abriu o jornal da véspera. Chovia fininho. Do outro lado, a moça do armarinho levantava as portas de ferro, e por um instante os dois se olharam, constrangidos, através do vidro.
";
const CHINESE: &str = "\
昨天下午，市政府召开新闻发布会，宣布地铁七号线将于明年春天正式通车。据交通局副局长王建国介绍，全线共设二十三个车站，高峰时段每三分钟一班。沿线居民对此议论纷纷：有人担心房租上涨，也有人盼着早点告别拥挤的公交车。
小时候，我最喜欢跟着外婆去菜市场。她总是一边挑豆角一边和摊主讨价还价，末了还要人家多送两根葱。回家的路上，她会给我买一块热腾腾的烧饼，看着我吃得满嘴芝麻，自己却一口也舍不得尝。如今市场早已拆掉，那股香味我却一直记得。
服务启动失败，日志显示数据库连接超时。我检查了配置文件，发现端口号写错了，改成5432之后重新部署，问题依然存在。进一步排查后确认，是防火墙规则拦截了内网请求。放行相应网段，再次运行集成测试，全部用例均已通过。
根据合同法的有关规定，当事人一方不履行义务或者履行义务不符合约定的，应当承担继续履行、采取补救措施或者赔偿损失等违约责任。原告主张被告逾期交货，造成其直接经济损失十二万元，并提交了往来邮件和银行流水作为证据。
如果你愿意，我可以先把这个函数拆成两个：一个负责读取输入，另一个负责校验字段。这样既便于编写单元测试，也更容易定位错误。不过在动手之前，我想确认一下：目前遇到空行时直接跳过的行为，是有意为之，还是当初的疏忽？
研究人员发现，长期睡眠不足会明显削弱免疫系统的功能。该团队跟踪了三百多名志愿者，历时四年，定期采集血液样本并记录作息。结果表明，每晚睡眠少于六小时的人，患感冒的概率几乎是其他人的两倍，而午睡只能弥补其中一小部分。
此选项用于指定同时保持的最大连接数，默认值为一百。若设为零，则不作限制。无效的参数会被忽略，并输出一条警告信息。使用该命令前，请确认当前用户拥有写入目标目录的权限，否则程序将立即退出并返回非零状态码。
唐代的诗人喜欢登高远望，往往借山川抒发胸中的郁结。李白写庐山瀑布，气势磅礴；王维画辋川烟雨，淡墨无痕。千百年后，我们站在同样的江边，看同样的月亮，读到那些句子，仍然会忽然沉默下来，仿佛听见了遥远的钟声。
公司第三季度的营业收入同比增长百分之九，但净利润有所下滑，主要原因是原材料涨价以及汇率波动。董事会决定暂缓扩建苏州工厂，把资金优先投入芯片研发。分析师普遍认为，这一调整虽然保守，却符合当前的市场形势。
他推开门，屋里一片漆黑，只有水龙头滴滴答答地响着。桌上压着一张纸条，字迹潦草，像是匆忙之间写下的：钥匙放在老地方，别等我吃饭。他站了很久，终于慢慢坐下，把那张纸折了又折，塞进了衬衫口袋。
";
const JAPANESE: &str = "\
市は昨日、老朽化した中央図書館を建て替える計画を発表した。新しい建物は地上四階建てで、二〇二八年の春に開館する予定だという。担当の佐々木課長は「子ども連れでも気軽に立ち寄れる場所にしたい」と話しているが、費用の増加を心配する声も少なくない。
祖母の家には大きな柿の木があって、秋になると近所の子どもたちが集まってきた。祖母は縁側に座り、一つずつ皮をむいては新聞紙の上に並べ、渋いのが混じっていると笑いながら猫のほうへ転がした。あの頃の夕焼けの色を、今でもときどき思い出す。
サーバーの起動に失敗しました。ログを確認したところ、データベースへの接続がタイムアウトしていました。設定ファイルのポート番号を修正して再デプロイしましたが、エラーは解消されません。原因は、社内ネットワークのファイアウォールが通信を遮断していたことでした。
甲は、本契約に定める義務に違反したときは、乙に対し、これによって生じた損害を賠償しなければならない。ただし、天災その他の不可抗力による場合は、この限りでない。なお、本契約に関する紛争については、東京地方裁判所を第一審の専属的合意管轄裁判所とする。
よろしければ、この関数を二つに分けてみましょうか。一方で入力を読み込み、もう一方で項目を検証するようにすれば、単体テストが書きやすくなりますし、不具合の場所も見つけやすくなります。ただ、その前に、空行を無視する今の動作が意図したものかどうか確認させてください。
研究チームによると、睡眠時間が六時間に満たない人は、そうでない人に比べて風邪をひく割合がおよそ二倍に上った。調査は四年間にわたり、三百人を超える参加者の血液と生活の記録を分析したものだ。昼寝で補える効果はごくわずかだったと報告されている。
このオプションは、同時に開いておく接続の最大数を指定します。ゼロを指定した場合、制限はありません。不正な値は無視され、警告が表示されます。コマンドを実行する前に、出力先のディレクトリに書き込む権限があることを確認してください。
試合は序盤から相手のペースで進み、前半だけで二点を失った。後半、監督が思い切って若い選手を三人入れ替えると、流れは一変する。残り十分で同点に追いつき、終了間際、ゴール前のこぼれ球を押し込んで逆転した瞬間、雨の中のスタンドが揺れた。
いつもお世話になっております。先日ご注文いただいた商品ですが、入荷が遅れており、お届けは来週の木曜日以降になる見込みです。ご迷惑をおかけして誠に申し訳ございません。キャンセルをご希望の場合は、お手数ですが本メールにご返信くださいますようお願いいたします。
窓の外では、まだ雪が降り続いていた。彼女は冷めかけた紅茶を一口すすり、手紙の続きを書こうとして、また筆を置いた。何を書いても嘘になるような気がする。時計の針だけが、静かな部屋の中で、几帳面に音を刻んでいた。
";

/// The languages that are fitted, as gettext names them; the others that gettext has are only measured.
const LANGUAGES: [&str; 14] =
    ["pt_BR", "es", "fr", "de", "pl", "ru", "el", "ar", "zh_CN", "ja", "ko", "hi", "th", "vi"];
const OTHER_LANGUAGES: [&str; 9] = ["it", "nl", "sv", "cs", "ro", "tr", "uk", "he", "zh_TW"];

fn add_paragraphs(corpus: &mut Corpus) {
    for (language, text) in [("pt_BR", PORTUGUESE), ("zh_CN", CHINESE), ("ja", JAPANESE)] {
        corpus.entry(format!("prose {language}")).or_default().push(text.to_owned());
    }
}

/// The longer translations of each program that is installed here; one text for each program.
fn add_translations(corpus: &mut Corpus, locale: &Path, languages: &[&str]) -> Result<(), Failure> {
    if !locale.exists() {
        eprintln!("no translations: {} is missing; going on without {}", locale.display(), languages.join(", "));
        return Ok(());
    }
    for language in languages {
        let directory = locale.join(language).join("LC_MESSAGES");
        if !directory.exists() {
            eprintln!("no translations: {} is missing", directory.display());
            continue;
        }
        for path in files_in(&directory, "mo")? {
            let text = translations(&fs::read(&path)?);
            if text.len() > 500 {
                corpus.entry(format!("language {language}")).or_default().push(text);
            }
        }
    }
    Ok(())
}

/// The translations of more than 60 bytes in a little-endian catalogue (gettext manual, "The Format of GNU MO Files").
fn translations(catalogue: &[u8]) -> String {
    let number = |at: usize| {
        let bytes = catalogue.get(at..)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let translation = |index: usize| {
        let entry = number(16)? + 8 * index;
        let (length, start) = (number(entry)?, number(entry + 4)?);
        std::str::from_utf8(catalogue.get(start..start + length)?).ok()
    };
    let count = if number(0) == Some(0x9504_12de) { number(8).unwrap_or(0) } else { 0 };
    let texts: Vec<&str> = (1..count).filter_map(translation).filter(|text| text.len() > 60).collect();
    texts.join("\n").replace('\0', "\n")
}

// ---- measuring

/// A class of text, cut into chunks and counted.
struct Measured {
    name: String,
    fit: Vec<Chunk>,
    check: Vec<Chunk>,
}

struct Chunk {
    /// o200k tokens, counted by tiktoken.
    tokens: f64,
    /// o200k tokens, by the weights that are in `src/tokens.rs` now.
    shipped: f64,
    /// How often each transition occurs.
    seen: Vec<f64>,
}

fn measure(corpus: Corpus) -> Vec<Measured> {
    let bar = ProgressBar::new(corpus.len() as u64);
    let tokenizer = tiktoken_rs::o200k_base_singleton();
    let mut measured = Vec::new();
    for (name, mut texts) in corpus {
        bar.set_message(name.clone());
        let mut halves = [Vec::new(), Vec::new()];
        let mut sizes = [0, 0];
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        for text in &texts {
            let half = usize::from(sizes[1] < sizes[0]);
            for piece in chunks(text) {
                sizes[half] += piece.len();
                halves[half].push(count(piece, tokenizer));
            }
        }
        let [fit, check] = halves;
        measured.push(Measured { name, fit, check });
        bar.inc(1);
    }
    bar.finish_and_clear();
    measured
}

fn chunks(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

fn count(text: &str, tokenizer: &tiktoken_rs::CoreBPE) -> Chunk {
    let mut seen = vec![0.0; WEIGHTS];
    let mut last = START;
    for class in text.bytes().map(class) {
        seen[usize::from(last) * CLASSES + usize::from(class)] += 1.0;
        last = class;
    }
    let tokens = tokenizer.encode_ordinary(text).len() as f64;
    Chunk { tokens, shipped: estimate(text.as_bytes()) as f64, seen }
}

// ---- fitting

/// Least squares as its normal equations: minimise w'Gw - 2 w'r.
struct Problem {
    gram: Vec<f64>,
    right: Vec<f64>,
}

impl Problem {
    fn zero() -> Self {
        Self { gram: vec![0.0; WEIGHTS * WEIGHTS], right: vec![0.0; WEIGHTS] }
    }

    /// One class: the squared relative error of each chunk, by its share of the tokens, and that of the whole.
    fn of(chunks: &[Chunk]) -> Self {
        let mut problem = Self::zero();
        let total = total(chunks, |chunk| chunk.tokens);
        let mut whole = vec![0.0; WEIGHTS];
        for chunk in chunks {
            problem.add_row(&chunk.seen, chunk.tokens, chunk.tokens / total);
            whole.iter_mut().zip(&chunk.seen).for_each(|(sum, seen)| *sum += seen);
        }
        if total > 0.0 {
            problem.add_row(&whole, total, 1.0);
        }
        problem
    }

    /// Asks for `seen . w = tokens`, relative to `tokens`.
    fn add_row(&mut self, seen: &[f64], tokens: f64, importance: f64) {
        let row: Vec<(usize, f64)> =
            seen.iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(at, n)| (at, n / tokens)).collect();
        for &(at, value) in &row {
            self.right[at] += importance * value;
            for &(other, factor) in &row {
                self.gram[at * WEIGHTS + other] += importance * value * factor;
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.gram.iter_mut().zip(&other.gram).for_each(|(sum, value)| *sum += value);
        self.right.iter_mut().zip(&other.right).for_each(|(sum, value)| *sum += value);
    }
}

/// The weights, in 1/1024ths of a token, that fit all problems but the one at `left_out`: coordinate descent with
/// every weight between 0 and [`HEAVIEST`].
fn solve(problems: &[Problem], left_out: Option<usize>, start: &[u16]) -> Vec<u16> {
    let mut sum = Problem::zero();
    for (at, problem) in problems.iter().enumerate() {
        if Some(at) != left_out {
            sum.add(problem);
        }
    }
    for at in 0..WEIGHTS {
        sum.gram[at * WEIGHTS + at] += PULL;
        sum.right[at] += PULL * PRIOR;
    }
    let mut weights: Vec<f64> = start.iter().map(|weight| f64::from(*weight) / UNITS_PER_TOKEN).collect();
    for _round in 0..5000 {
        let mut largest_step: f64 = 0.0;
        for at in 0..WEIGHTS {
            let row = &sum.gram[at * WEIGHTS..(at + 1) * WEIGHTS];
            let slope = sum.right[at] - row.iter().zip(&weights).map(|(gram, weight)| gram * weight).sum::<f64>();
            let better = (weights[at] + slope / row[at]).clamp(0.0, HEAVIEST as f64);
            largest_step = largest_step.max((better - weights[at]).abs());
            weights[at] = better;
        }
        if largest_step < 1e-6 {
            break;
        }
    }
    weights.into_iter().map(|weight| (weight * UNITS_PER_TOKEN).round() as u16).collect()
}

// ---- printing

fn total(chunks: &[Chunk], figure: impl Fn(&Chunk) -> f64) -> f64 {
    chunks.iter().map(figure).sum()
}

fn predict(chunk: &Chunk, weights: &[u16]) -> f64 {
    chunk.seen.iter().zip(weights).map(|(seen, weight)| seen * f64::from(*weight)).sum::<f64>() / UNITS_PER_TOKEN
}

/// Error of the sum over all chunks, in per cent.
fn error(chunks: &[Chunk], estimate: impl Fn(&Chunk) -> f64) -> f64 {
    100.0 * (total(chunks, estimate) / total(chunks, |chunk| chunk.tokens) - 1.0)
}

/// The error, whatever its sign, that 95 % of the chunks stay below, in per cent.
fn error_p95(chunks: &[Chunk], weights: &[u16]) -> Option<f64> {
    let mut errors: Vec<f64> =
        chunks.iter().map(|chunk| 100.0 * (predict(chunk, weights) / chunk.tokens - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() * 95 / 100).copied()
}

fn print_errors(trained: &[Measured], unseen: &[Measured], problems: &[Problem], weights: &[u16]) {
    println!("Error of the sum over a class in %. fit: on the half that is fitted; check, p95 (of single chunks) and");
    println!("shipped (the weights that are in src/tokens.rs now): on the other half; left out: on the other half,");
    println!("fitted without this class.");
    println!("class              kB  B/token    fit  check    p95  left out  shipped");
    let bar = ProgressBar::new(problems.len() as u64);
    for (at, class) in trained.iter().enumerate() {
        let without = solve(problems, Some(at), weights);
        let fit = error(&class.fit, |chunk| predict(chunk, weights));
        let left_out = error(&class.check, |chunk| predict(chunk, &without));
        bar.suspend(|| print_row(class, weights, fit, left_out));
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!("never fitted:");
    for class in unseen {
        print_row(class, weights, f64::NAN, f64::NAN);
    }
}

fn print_row(class: &Measured, weights: &[u16], fit: f64, left_out: f64) {
    let bytes: f64 = class.fit.iter().chain(&class.check).flat_map(|chunk| &chunk.seen).sum();
    let tokens: f64 = class.fit.iter().chain(&class.check).map(|chunk| chunk.tokens).sum();
    let check = error(&class.check, |chunk| predict(chunk, weights));
    let shipped = error(&class.check, |chunk| chunk.shipped);
    let [fit, check, left_out, shipped] = [fit, check, left_out, shipped]
        .map(|error| if error.is_nan() { "-".to_owned() } else { format!("{error:+.1}") });
    let p95 = error_p95(&class.check, weights).map_or("-".to_owned(), |error| format!("{error:.1}"));
    let (kilobytes, density) = (bytes / 1000.0, bytes / tokens);
    println!(
        "{:14} {kilobytes:>6.0} {density:>8.2} {fit:>6} {check:>6} {p95:>6} {left_out:>9} {shipped:>8}",
        class.name
    );
}

fn print_weights(weights: &[u16]) {
    println!("\nstatic WEIGHTS: [u16; CLASSES * CLASSES] = [");
    for row in weights.chunks(CLASSES) {
        let row: Vec<String> = row.iter().map(|weight| format!("{weight:>4}")).collect();
        println!("    {},", row.join(", "));
    }
    println!("];");
}
