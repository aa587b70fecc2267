package mysqlstore

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// Every value goes into a statement as a number, as hexadecimal or as base64. So a statement needs no placeholders of the driver, which would
// cost a round trip to prepare it and one to forget it (see routine.go for what is prepared); and neither the character set nor the SQL mode of a session, nor anybody's quoting, can
// change what it says.

// bytesLiteral writes bytes as a binary string.
func bytesLiteral[T string | []byte](b T) string { return "X'" + hex.EncodeToString([]byte(b)) + "'" }

func stateLiteral(state []byte) string {
	if state == nil {
		return "NULL"
	}
	return bytesLiteral(state)
}

func intLiteral(n int64) string { return strconv.FormatInt(n, 10) }

// A column of a batch.
type column struct {
	name  string
	kind  columnKind
	group columnGroup
}

// A columnGroup is columns that are in the statement for many rows in the same way: as one value that all rows have in common, or as a value of each
// row. So a session prepares four statements at most for each change of many rows.
type columnGroup int

const (
	keys    columnGroup = iota // always a value of each row
	holders                    // the holder alone
	others
)

type columnKind int

const (
	number columnKind = iota
	binary            // of up to 255 bytes
	blob              // of any length
)

// A cell is a value of a batch: its text is a number, or bytes.
type cell struct {
	text string
	null bool
}

func intCell(n int64) cell                              { return cell{text: intLiteral(n)} }
func bytesCell[T string | []byte](b T) cell             { return cell{text: string(b)} }
func nullableCell[T string | []byte](b T, is bool) cell { return cell{string(b), !is} }

func (c cell) literal(kind columnKind) string {
	switch {
	case c.null:
		return "NULL"
	case kind == number:
		return c.text
	}
	return bytesLiteral(c.text)
}

// batch puts rows into statements: {c.x} is column x, {c.i} the number of the row from first on, {from} where the rows of their
// names are, if {on}. The first column is the name of the row: no name of a column of the table, which may be another (see Config.ShedLockColumns). What all rows of a group have in common stands in the statement as a literal; so does all of a
// single row, which the server then finds without a temporary table. The rest comes as JSON, which costs the server much less than a
// SELECT for each.
func batch(columns []column, rows [][]cell, first int) fill {
	of := shapeOf(columns, rows)
	json := ""
	if of.many {
		json = of.json(rows)
	}
	return of.fill(func(i int) string { return rows[0][i].literal(columns[i].kind) }, json, first)
}

// A shape is what the statements for rows depend on beside the rows themselves.
type shape struct {
	columns []column
	many    bool   // there is more than one row
	own     []bool // the columns of which each row has its own cell
}

func shapeOf(columns []column, rows [][]cell) shape {
	of := shape{columns, len(rows) > 1, make([]bool, len(columns))}
	varied := [...]bool{keys: of.many, holders: false, others: false}
	for _, row := range rows {
		for i, c := range columns {
			varied[c.group] = varied[c.group] || row[i] != rows[0][i]
		}
	}
	for i, c := range columns {
		of.own[i] = varied[c.group]
	}
	return of
}

// first returns the shape of the first n columns.
func (of shape) first(n int) shape { return shape{of.columns[:n], of.many, of.own[:n]} }

// key identifies the shape among those of the same columns.
func (of shape) key() string {
	key := make([]byte, len(of.own))
	for i, own := range of.own {
		key[i] = '='
		if own {
			key[i] = 'x'
		}
	}
	return string(key)
}

// fill puts rows into statements: the expression literal(i) in place of column i, where the rows have it in common, and the rest from json.
func (of shape) fill(literal func(i int) string, json string, first int) fill {
	f := fill{"from": sqlFromOne, "on": "r.name = {c.row_name}", "c.i": strconv.Itoa(first)}
	for i, c := range of.columns {
		f["c."+c.name] = "c." + c.name
		if !of.own[i] {
			f["c."+c.name] = literal(i)
		}
	}
	if of.many {
		f["from"], f["on"], f["c.i"], f["batch"] = sqlFrom, "TRUE", "c.i", of.table(json, first)
	}
	return f
}

// jsonTypes are what the columns are in JSON, and functions what makes of them what they are.
var (
	jsonTypes = [...]string{number: "BIGINT", binary: "VARCHAR(510)", blob: "LONGTEXT"}
	functions = [...]string{number: "", binary: "UNHEX", blob: "FROM_BASE64"}
)

// table reads the own columns of rows, and i, from an expression that is JSON.
func (of shape) table(json string, first int) string {
	var b, paths strings.Builder
	b.WriteString("(SELECT j.i + " + strconv.Itoa(first) + " - 1 AS i")
	letter := 'a'
	for i, c := range of.columns {
		if of.own[i] {
			b.WriteString(", " + functions[c.kind] + "(j." + c.name + ") AS " + c.name)
			paths.WriteString(", " + c.name + " " + jsonTypes[c.kind] + " PATH '$." + string(letter) + "'")
			letter++
		}
	}
	b.WriteString(" FROM JSON_TABLE(" + json + ", '$[*]' COLUMNS (i FOR ORDINALITY" + paths.String() + ")) AS j)")
	return b.String()
}

// json writes the own columns of rows as a literal. Of its text only digits, letters, + / = and the punctuation of JSON are values.
func (of shape) json(rows [][]cell) string {
	var b strings.Builder
	b.WriteString("_utf8mb4'[")
	for n, row := range rows {
		if n > 0 {
			b.WriteByte(',')
		}
		letter := 'a'
		for i, c := range of.columns {
			if of.own[i] {
				b.WriteByte("{,"[min(letter-'a', 1)])
				b.WriteString(`"` + string(letter) + `":`)
				writeJSON(&b, c.kind, row[i])
				letter++
			}
		}
		b.WriteByte('}')
	}
	b.WriteString("]'")
	return b.String()
}

func writeJSON(b *strings.Builder, kind columnKind, c cell) {
	switch {
	case c.null:
		b.WriteString("null")
	case kind == number:
		b.WriteString(c.text)
	case kind == binary:
		b.WriteString(`"` + hex.EncodeToString([]byte(c.text)) + `"`)
	default:
		b.WriteString(`"` + base64.StdEncoding.EncodeToString([]byte(c.text)) + `"`)
	}
}
