//! Languages: paragraphs of our own, and the translations of installed programs.

use std::fs;
use std::path::Path;

use super::{Corpus, Failure, corpus::files_in};

pub const PORTUGUESE: &str = "\
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
pub const CHINESE: &str = "\
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
pub const JAPANESE: &str = "\
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
pub const LANGUAGES: [&str; 14] =
    ["pt_BR", "es", "fr", "de", "pl", "ru", "el", "ar", "zh_CN", "ja", "ko", "hi", "th", "vi"];
pub const OTHER_LANGUAGES: [&str; 9] = ["it", "nl", "sv", "cs", "ro", "tr", "uk", "he", "zh_TW"];

pub fn add_paragraphs(corpus: &mut Corpus) {
    for (language, text) in [("pt_BR", PORTUGUESE), ("zh_CN", CHINESE), ("ja", JAPANESE)] {
        corpus.entry(format!("prose {language}")).or_default().push(text.to_owned());
    }
}

/// The longer translations of each program that is installed here; one text for each program.
pub fn add_translations(corpus: &mut Corpus, locale: &Path, languages: &[&str]) -> Result<(), Failure> {
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
pub fn translations(catalogue: &[u8]) -> String {
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
