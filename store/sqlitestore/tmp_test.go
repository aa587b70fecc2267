package sqlitestore
import ("testing";"time";"path/filepath";"fmt";"slices")
func BenchmarkParts(b *testing.B) {
	s := openAt(b, filepath.Join(b.TempDir(), "leases.db"))
	release(b, s, take(b, s, "name", "x", time.Minute))
	bare := floor(b)
	parts := map[string][]time.Duration{}
	var at time.Time
	lap := func(n string) { now := time.Now(); parts[n] = append(parts[n], now.Sub(at)); at = time.Now() }
	f := s.file
	i := 0
	for b.Loop() {
		i++
		at = time.Now()
		bare(); lap("0 bare x2")
		f.check(); lap("1 check")
		r, _ := f.write.record("name", false); lap("2 read")
		tok := r.token+1
		f.write.exec(sqlRetake, "name", fmt.Sprint("h",i), tok, int64(1), int64(1)<<60, r.token, r.released, r.until); lap("6 retake")
		f.here(); lap("8 here")
		f.check(); lap("a check")
		f.write.exec(sqlRelease, "name", fmt.Sprint("h",i), tok, int64(5), int64(6), 0, false, []byte(nil), int64(7)); lap("c release")
		f.here(); lap("e here")
	}
	var ks []string
	for k := range parts { ks = append(ks, k) }
	slices.Sort(ks)
	for _, k := range ks { p := parts[k]; slices.Sort(p); fmt.Println(k, p[len(p)/2]) }
}
