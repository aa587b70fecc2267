package server

import (
	"reflect"
	"strings"
	"testing"
)

// full returns a ticket of which no field is zero, so that one which is added and not written is noticed.
func full(t testing.TB) (full ticket) {
	t.Helper()
	var fill func(reflect.Value)
	n := int64(0)
	fill = func(v reflect.Value) {
		n++
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.String:
			v.SetString(strings.Repeat(string(rune('a'+n)), secretSize))
		case reflect.Bool:
			v.SetBool(true)
		default:
			v.SetInt(n << 20)
		}
	}
	fill(reflect.ValueOf(&full).Elem())
	return full
}

// A lease string has every field of its ticket, and nothing that is cut, longer or of another form is read.
func TestTicketsAreWhole(t *testing.T) {
	all := full(t)
	text := all.String()
	if got, err := parseTicket(text); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v; want %+v", got, err, all)
	}
	raw, _ := ticketText.DecodeString(text)
	for n := range raw {
		if got, err := parseTicket(ticketText.EncodeToString(raw[:n])); err == nil {
			t.Errorf("the first %d of %d bytes are %+v", n, len(raw), got)
		}
	}
	for what, bad := range map[string]string{
		"empty": "", "more": ticketText.EncodeToString(append(raw, 0)), "another form": ticketText.EncodeToString(append([]byte{ticketForm + 1}, raw[1:]...)),
		"no base64": text + "!", "a line": text + "\n", "JSON": ticketText.EncodeToString([]byte(`{"k":"lock"}`)), "too long": strings.Repeat("A", maxTicket+1),
	} {
		if got, err := parseTicket(bad); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for what, change := range map[string]func(*ticket){
		"no token": func(t *ticket) { t.Token = 0 }, "a token below 0": func(t *ticket) { t.Token = -1 }, "no TTL": func(t *ticket) { t.TTL = 0 },
		"a TTL below 0": func(t *ticket) { t.TTL = -1 }, "a permit below 0": func(t *ticket) { t.Permit = -1 }, "a short secret": func(t *ticket) { t.Secret = t.Secret[1:] },
		"a limit that is no int of 32 bits": func(t *ticket) { t.Limit = 1 << 31 },
	} {
		wrong := all
		change(&wrong)
		if got, err := parseTicket(wrong.String()); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// FuzzTicket: no lease string harms the service, and one that is read is the only one that says what it says.
func FuzzTicket(f *testing.F) {
	f.Add(full(f).String())
	f.Add(ticket{Kind: "lock", Name: "x", Replica: "r", Secret: strings.Repeat("s", secretSize), Token: 1, TTL: 1}.String())
	raw, err := ticketText.DecodeString(full(f).String())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ticketText.EncodeToString(append(raw[:len(raw)-1], raw[len(raw)-1]|0x80, 0))) // the last number, in one byte more
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTicket(text)
		if err != nil {
			return
		}
		if again := got.String(); again != text {
			t.Errorf("%q and %q say the same: %+v", text, again, got)
		}
	})
}
