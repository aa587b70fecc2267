package importer

import (
	"reflect"
	"testing"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
)

// TestCrontabMeansTheSame: the jobs of the YAML are those that soloist cron reads from the crontab itself.
func TestCrontabMeansTheSame(t *testing.T) {
	for _, text := range []string{
		"0 3 * * * ./a --all\n",
		"CRON_TZ=Europe/Berlin\n0 3 1-7 * 1 ./a\nTZ=Asia/Tokyo\n0 4 * * * ./b\n",
		"CRON_TZ=Europe/Berlin\n@every 30s ./a\n@daily ./b\n",
		"A='x y'\nB=\"$HOME\"\nC=\n*/5 * * * * echo \"$A\" | tee x%one%two\\%three\n",
		"0 3 * * * date +\\%F % %\n0 4 * * * cat%\n0 5 * * * cat%%\n0 6 * * * cat%a\\\\%b  \n",
		"0 3 * * * cat%  indented\n0 4 * * * cat%%#x\n0 5 * * * cat%\ttab%two\n0 6 * * * cat%% x%%\n0 7 * * * cat%\u2028a%b\n0 8 * * * cat% %\n0 9 * * * cat%a%  b% c\n",
		"SHELL=/bin/bash\n0 3 * * * x=$(date); echo \"$x\"\n",
		"# name: n\n# soloist: ttl=1m at-most=2h at-least=10s missed=all missed-cap=7 grace=90s crash=give-up jitter=1500ms\n0 3 * * * ./a\n",
		"0 3 * * * echo '# no comment: {x}' && echo 'null' \ttab\n",
		"0 0 3 * * * 2030 ./a\n",
		"H 3 * * * ./a\n# name: yes\n1 1 * * * ./b\n# name: 1e3\n1 1 * * * ./c\n",
		"PATH=/bin:/usr/bin\nHOME=/tmp\nX=null\nY=0x10\n1 1 29 2 * true\n",
		"DAYS=both\n1 1 1 * 1 true\n",
	} {
		for _, d := range []crontab.Dialect{{}, {LiteralPercent: true}} {
			d.Format = crontab.Crontab
			want, err := crontab.Parse("f", []byte(text), d)
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			r, err := Crontab("f", []byte(text), d)
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			got, err := crontab.Parse("f", r.YAML, crontab.Dialect{Format: crontab.YAML})
			if err != nil || len(got.Jobs) != len(want.Jobs) {
				t.Errorf("%q: %v\n%s", text, err, r.YAML)
				continue
			}
			for i, w := range want.Jobs {
				g := got.Jobs[i]
				if !reflect.DeepEqual(g.Argv(), w.Argv()) {
					t.Errorf("%q: runs %q, not %q", text, g.Argv(), w.Argv())
				}
				for _, j := range []*crontab.Job{&g, &w} {
					j.Derived, j.Line, j.Expression, j.Args, j.Command, j.Shell = false, 0, nil, nil, "", ""
				}
				if !reflect.DeepEqual(g, w) {
					t.Errorf("%q:\n%+v, want\n%+v\n%s", text, g, w, r.YAML)
				}
			}
		}
	}
}
