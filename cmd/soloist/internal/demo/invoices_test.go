package demo

import "testing"

func TestInvoices(t *testing.T) {
	invoices, err := parseInvoices(invoicesCSV)
	if err != nil {
		t.Fatal(err)
	}
	if len(invoices) != 300 {
		t.Errorf("there are %d", len(invoices))
	}
	if first := invoices[0]; first.ID != "2026-0001" || first.Customer != "Eichholz Printing BV" || euros(first.Cents) != "1120.47 EUR" || first.Due.Day() != 30 {
		t.Errorf("the first is %+v", first)
	}
}

func TestBadInvoices(t *testing.T) {
	const header = "id,customer,amount,due\n"
	for _, text := range []string{
		"",
		"id,customer,amount\n",
		header + "1,A,2.00\n",
		header + "1/2,A,2.00,2026-12-01\n",
		header + ",A,2.00,2026-12-01\n",
		header + "1,A,much,2026-12-01\n",
		header + "1,A,NaN,2026-12-01\n",
		header + "1,A,-2.00,2026-12-01\n",
		header + "1,A,2.00,tomorrow\n",
		header + "1,A,2.00,2026-12-01\n1,B,3.00,2026-12-01\n",
	} {
		if _, err := parseInvoices(text); err == nil {
			t.Errorf("nothing is wrong with %q", text)
		}
	}
}
