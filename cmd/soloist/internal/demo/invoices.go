package demo

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

//go:embed invoices.csv
var invoicesCSV string

// An invoice is a line of invoices.csv: id, customer, amount, due.
type invoice struct {
	ID       string
	Customer string
	Cents    int64
	Due      time.Time
}

func (i invoice) path() string { return invoicePaths + i.ID }

// parseInvoices reads the lines after the header. Ids are unique, and fit into a path.
func parseInvoices(text string) ([]invoice, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = 4
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the invoices: %w", err)
	}
	if len(lines) == 0 || strings.Join(lines[0], ",") != "id,customer,amount,due" {
		return nil, fmt.Errorf("reading the invoices: the first line must be id,customer,amount,due")
	}
	known := map[string]bool{}
	var invoices []invoice
	for i, line := range lines[1:] {
		v, err := parseInvoice(line)
		if err == nil && known[v.ID] {
			err = fmt.Errorf("the id %q is there twice", v.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the invoices: line %d: %w", i+2, err)
		}
		known[v.ID] = true
		invoices = append(invoices, v)
	}
	return invoices, nil
}

func parseInvoice(fields []string) (invoice, error) {
	id := fields[0]
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r != '-' && (r < '0' || r > '9') }) {
		return invoice{}, fmt.Errorf("the id %q is not made of digits and dashes", id)
	}
	amount, err := strconv.ParseFloat(fields[2], 64)
	if err != nil || !(amount > 0 && amount < 1e9) {
		return invoice{}, fmt.Errorf("the amount %q is not a number above 0", fields[2])
	}
	due, err := time.Parse(time.DateOnly, fields[3])
	return invoice{ID: id, Customer: fields[1], Cents: int64(math.Round(amount * 100)), Due: due}, err
}

func euros(cents int64) string { return fmt.Sprintf("%d.%02d EUR", cents/100, cents%100) }
