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
	name string
	kind columnKind
}

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
// names are, if {on}. The first column is the name of the row: no name of a column of the table, which may be another (see Config.ShedLockColumns). What all rows have in common stands in the statement as a literal; so does all of a
// single row, which the server then finds without a temporary table. The rest comes as JSON, which costs the server much less than a
// SELECT for each.
func batch(columns []column, rows [][]cell, first int) fill {
	f := fill{"from": sqlFrom, "on": "TRUE", "c.i": "c.i"}
	if len(rows) == 1 {
		f["from"], f["on"], f["c.i"] = sqlFromOne, "r.name = {c.row_name}", strconv.Itoa(first)
	}
	var own []int // the columns of which not all cells are the same
	for i, c := range columns {
		if len(rows) > 1 && (i == 0 || !common(rows, i)) {
			own = append(own, i)
			f["c."+c.name] = "c." + c.name
		} else {
			f["c."+c.name] = rows[0][i].literal(c.kind)
		}
	}
	if len(rows) > 1 {
		f["batch"] = table(columns, own, rows, first)
	}
	return f
}

func common(rows [][]cell, column int) bool {
	for _, row := range rows[1:] {
		if row[column] != rows[0][column] {
			return false
		}
	}
	return true
}

// jsonTypes are what the columns are in JSON, and functions what makes of them what they are.
var (
	jsonTypes = [...]string{number: "BIGINT", binary: "VARCHAR(510)", blob: "LONGTEXT"}
	functions = [...]string{number: "", binary: "UNHEX", blob: "FROM_BASE64"}
)

// table writes the own columns of rows, and i. Of its text only digits, letters, + / = and the punctuation of JSON are values.
func table(columns []column, own []int, rows [][]cell, first int) string {
	var b strings.Builder
	b.WriteString("(SELECT j.i + " + strconv.Itoa(first) + " - 1 AS i")
	for _, i := range own {
		c := columns[i]
		b.WriteString(", " + functions[c.kind] + "(j." + c.name + ") AS " + c.name)
	}
	b.WriteString(" FROM JSON_TABLE(_utf8mb4'[")
	for n, row := range rows {
		if n > 0 {
			b.WriteByte(',')
		}
		for k, i := range own {
			b.WriteByte("{,"[min(k, 1)])
			b.WriteString(`"` + string(rune('a'+k)) + `":`)
			writeJSON(&b, columns[i].kind, row[i])
		}
		b.WriteByte('}')
	}
	b.WriteString("]', '$[*]' COLUMNS (i FOR ORDINALITY")
	for k, i := range own {
		b.WriteString(", " + columns[i].name + " " + jsonTypes[columns[i].kind] + " PATH '$." + string(rune('a'+k)) + "'")
	}
	b.WriteString(")) AS j)")
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
