package pgstore

import (
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/store/internal/tokens"
)

//go:embed sql/*.sql sql/schema/*.sql
var sqlFiles embed.FS

// schemaVersion is that of sql/schema. Version 2 has lines, and 3 has floors and a secret.
const schemaVersion = 3

// groupBase is where the keys of the advisory locks begin that say who listens: "Sol" in the uppermost bytes. The table's oid and 256
// groups of names go below it. Below inboxBase, "SOL", are those of processes that listen, by chance.
const (
	groupBase = 0x536f6c << 40
	inboxBase = 0x534f4c << 40
)

// statements are the statements of the verbs for one table. The comment in each file describes its parameters and its result.
type statements struct {
	acquire, extend, release, choose, complete, confirm, list, sights, meta, fit string

	sweepRaise, sweepSettle, sweep string // the steps of a sweep

	acquireOne, releaseOne string // for one element; acquireOne is "" where acquire does that too
	releaseSilently        string // as release, and notifies nobody

	queue, leave, heir, passed string // "" where there are no lines

	fill string // "" where no record can be made in one step

	listen string // of the connection that listens
}

// tables are the names of a store's tables, ready for SQL.
type tables struct {
	cfg                        Config
	schema                     string // as given, "" for the search path
	records, meta, line, floor string // quoted
}

func newTables(cfg Config) tables { return tables{cfg: cfg}.in(cfg.Schema) }

// in returns the tables as they are called in a schema.
func (t tables) in(schema string) tables {
	t.schema = schema
	t.records, t.meta = t.quoted(t.cfg.Table), t.quoted(t.cfg.Table+"_meta")
	t.line, t.floor = t.quoted(t.cfg.Table+"_line"), t.quoted(t.cfg.Table+"_floor")
	return t
}

func (t tables) quoted(name string) string {
	if t.schema == "" {
		return quote(name)
	}
	return quote(t.schema) + "." + quote(name)
}

// quote makes an identifier of a name that the pattern of Config allows.
func quote(name string) string { return `"` + name + `"` }

func (t tables) statements() statements {
	acquire, acquireOne, list := t.load("acquire"), t.load("acquire_one"), "list"
	if t.cfg.Dialect == CockroachDB {
		acquire, acquireOne = t.load("acquire_cockroach"), ""
	}
	if t.cfg.ShedLock {
		list = "list_shared"
	}
	all := statements{
		acquire: acquire, extend: t.load("extend"), release: t.load("release"), choose: t.load("choose"),
		acquireOne: acquireOne, releaseOne: t.load("release_one"),
		complete: t.load("complete"), confirm: t.load("confirm"), list: t.load(list), sights: t.load("sights"), meta: t.load("meta"), fit: t.load("fit"),
		listen:     t.load("listen"),
		sweepRaise: t.load("sweep_raise"), sweepSettle: t.load("sweep_settle"), sweep: t.load("sweep"),
	}
	if t.cfg.ShedLock {
		all.releaseOne = "" // release knows of ShedLock's
	}
	all.releaseSilently = t.fill(strings.ReplaceAll(bare("release"), "{{notify}}", "NULL::text"))
	if t.lined() {
		all.release, all.releaseOne = t.load("release_lined"), t.load("release_lined_one")
		all.fill = t.load("fill")
		all.queue, all.leave, all.heir, all.passed = t.load("queue"), t.load("leave"), t.load("heir"), t.load("passed")
	}
	return all
}

// lined reports whether names have lines. A name that is handed over from one of ours to the next would never be free for a JVM that polls.
func (t tables) lined() bool { return t.cfg.Dialect == PostgreSQL && !t.cfg.ShedLock }

// load returns a statement with the names filled in and without its comments.
func (t tables) load(name string) string { return t.fill(bare(name)) }

func (t tables) fill(text string) string {
	notify, collate := "NULL::text", ` COLLATE "C"`
	held := "s.holder = a.holder AND s.locked_by = a.holder AND NOT s.released"
	ended := "s.holder = a.holder AND s.locked_by = a.holder AND s.released"
	if t.cfg.ShedLock {
		held += " OR s.locked_by = a.holder AND s.locked_by <> s.holder"
		ended += " OR s.locked_by = a.holder AND s.locked_by <> s.holder AND s.lock_until <= a.now"
	}
	if t.cfg.Dialect == CockroachDB {
		collate = "" // its texts are in the order of their bytes
	} else {
		notify = bare("notify")
	}
	text = strings.NewReplacer("{{notify}}", notify, "{{hand}}", bare("hand"), "{{record}}", bare("record"), "{{forgettable}}", bare("forgettable"), "{{held}}", held, "{{ended}}", ended, "{{granted}}", bare("granted")).Replace(text)
	free := sealed("seal_free")
	text = strings.NewReplacer("{{free}}", strings.Replace(free, "{{at}}", "0::bigint", 1), "{{sooner}}", strings.Replace(free, "{{at}}", "e.at", 1),
		"{{handed}}", sealed("seal_handed")).Replace(text)
	text = t.cfg.columns().In(text, '"')
	regclass := "'" + t.records + "'::regclass::oid::bigint"
	return strings.NewReplacer(
		"{{table}}", t.records,
		"{{meta}}", t.meta,
		"{{line}}", t.line,
		"{{floor}}", t.floor,
		"{{collate}}", collate,
		"{{secret}}", "(SELECT secret FROM "+t.meta+" WHERE one = 1)",
		"{{random}}", "decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')",
		"{{early}}", strconv.FormatInt(shedlock.Early.Milliseconds(), 10),
		"{{forever}}", "timestamp '9999-12-31'",
		"{{first}}", "timestamp 'epoch'", // so that a difference of times has an end, whatever somebody has put into a record
		"{{last}}", "timestamp '9999-12-31'",
		"{{group}}", fmt.Sprintf("%d + %s * 256", groupBase, regclass),
		"{{base}}", strconv.Itoa(groupBase),
		"{{channel}}", "'soloist_' || "+regclass,
		"{{forgettable_token}}", strconv.FormatInt(tokens.Forgettable, 10),
		"{{version}}", strconv.Itoa(schemaVersion),
		"{{fence}}", t.quoted(t.cfg.Table+"_fence"),
		"{{trigger}}", quote(t.cfg.Table+"_fence"),
	).Replace(text)
}

// sealed returns the expression of sealed words that a file has.
func sealed(words string) string {
	return strings.Replace(bare("seal"), "{{words}}", bare(words), 1)
}

// commented returns a file as it is.
func commented(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // the file is part of the package
	}
	return strings.TrimSpace(string(text))
}

// bare returns a file without its comments: they would be sent with every statement.
func bare(name string) string {
	var b strings.Builder
	for line := range strings.Lines(commented(name)) {
		code, _, _ := strings.Cut(line, "--")
		if code = strings.TrimRight(code, " \n"); code != "" {
			b.WriteString(code + "\n")
		}
	}
	return strings.TrimSpace(b.String())
}
