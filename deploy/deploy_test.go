package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/soloist-dev/soloist/test/servers"
)

// systemd takes the units as they are. The program and the user are not there where it looks, so others stand for them.
func TestSystemdUnits(t *testing.T) {
	analyze := servers.Program(t, "systemd-analyze", "systemd-analyze")
	units, err := filepath.Glob("*.service")
	if err != nil || len(units) != 2 {
		t.Fatal(units, err)
	}
	for _, unit := range units {
		text := read(t, unit)
		for _, needed := range []string{"\nExecStart=/usr/bin/soloist ", "\nUser=soloist\n", "\nRestartPreventExitStatus=64 77 78\n", "\nLoadCredential=store:", "\nEnvironment=SOLOIST_CONFIG=/etc/soloist/soloist.yaml\n", "\nExecReload=/bin/kill -HUP $MAINPID\n"} {
			if !strings.Contains(text, needed) {
				t.Errorf("%s has no line %q", unit, strings.TrimSpace(needed))
			}
		}
		text = strings.NewReplacer("/usr/bin/soloist ", "/bin/true ", "User=soloist", "User=root").Replace(text)
		file := filepath.Join(t.TempDir(), unit)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		verify := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", file)
		if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}

// An object is a document of YAML.
type object = map[string]any

// documents returns the documents of a text. A key that is there twice is an error of the parser.
func documents(t *testing.T, text string) (all []object) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var one object
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		all = append(all, one)
	}
}

// at returns what is at a path, such as spec.template; nil if nothing is.
func at(o any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		m, ok := o.(object)
		if !ok {
			return nil
		}
		o = m[key]
	}
	return o
}

// charted renders the chart with changed values, by the functions of Helm's that it has.
func charted(t *testing.T, set map[string]any) (all []object) {
	t.Helper()
	values := documents(t, read(t, "helm/soloist/values.yaml"))[0]
	for path, value := range set {
		parent, key, _ := strings.Cut(path, ".")
		values[parent].(object)[key] = value
	}
	files, err := filepath.Glob("helm/soloist/templates/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		tmpl, err := template.New(file).Option("missingkey=error").Funcs(template.FuncMap{
			"quote": func(s any) string { return fmt.Sprintf("%q", fmt.Sprint(s)) },
			"nindent": func(n int, s string) string {
				return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
			},
			"toJson":    func(v any) (string, error) { text, err := json.Marshal(v); return string(text), err },
			"sha256sum": func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) },
			"add":       func(a, b int) int { return a + b },
		}).Parse(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := tmpl.Execute(&out, map[string]any{"Values": values, "Release": map[string]any{"Name": "jobs"}}); err != nil {
			t.Fatal(err)
		}
		all = append(all, documents(t, out.String())...)
	}
	return slices.DeleteFunc(all, func(o object) bool { return o == nil })
}

// The chart makes objects that fit together. This is not Helm, which takes minutes to build: docs/operate/deploy.md says what was checked with it.
func TestChart(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]any
		want []string
	}{
		"by default":   {nil, []string{"ConfigMap jobs-config", "ConfigMap jobs-crontab", "Deployment jobs-cron", "PodDisruptionBudget jobs-cron"}},
		"serve":        {map[string]any{"cron.enabled": false, "serve.enabled": true}, []string{"ConfigMap jobs-config", "Deployment jobs-serve", "PodDisruptionBudget jobs-serve", "Service jobs"}},
		"nothing":      {map[string]any{"cron.enabled": false}, nil},
		"a long drain": {map[string]any{"cron.drainSeconds": 600}, []string{"ConfigMap jobs-config", "ConfigMap jobs-crontab", "Deployment jobs-cron", "PodDisruptionBudget jobs-cron"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			objects := charted(t, c.set)
			for _, o := range objects {
				got = append(got, fmt.Sprint(o["kind"], " ", at(o, "metadata.name")))
				if o["kind"] == "Deployment" {
					checkDeployment(t, o, objects)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func checkDeployment(t *testing.T, d object, all []object) {
	t.Helper()
	labels := at(d, "spec.template.metadata.labels").(object)
	name := at(d, "metadata.name")
	selects := func(o any, who string) {
		for key, value := range o.(object) {
			if labels[key] != value {
				t.Errorf("%s: %s selects %s=%v, and the pods have %v", name, who, key, value, labels)
			}
		}
	}
	selects(at(d, "spec.selector.matchLabels"), "the deployment")
	pod := at(d, "spec.template.spec").(object)
	container := pod["containers"].([]any)[0].(object)
	volumes := map[any]bool{}
	for _, v := range pod["volumes"].([]any) {
		volumes[at(v, "name")] = true
	}
	for _, m := range container["volumeMounts"].([]any) {
		if !volumes[at(m, "name")] {
			t.Errorf("%s: there is no volume %v", name, at(m, "name"))
		}
	}
	for _, o := range all {
		switch o["kind"] {
		case "PodDisruptionBudget":
			selects(at(o, "spec.selector.matchLabels"), "the budget")
		case "Service":
			selects(at(o, "spec.selector"), "the service")
		}
	}
	for _, v := range container["env"].([]any) {
		if at(v, "value") == "" { // a variable that is set and empty is refused
			t.Errorf("%s: the variable %v is empty", name, at(v, "name"))
		}
	}
	drain := 10 // of serve
	if i := slices.Index(container["args"].([]any), any("--drain")); i >= 0 {
		if _, err := fmt.Sscanf(container["args"].([]any)[i+1].(string), "%ds", &drain); err != nil {
			t.Error(err)
		}
	}
	if grace := pod["terminationGracePeriodSeconds"].(int); grace < drain+15 { // the grace of a command, and a request that times out twice
		t.Errorf("%s: a pod has %d s to stop, and drains for %d s", name, grace, drain)
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe"} {
		port := at(container, probe+".httpGet.port")
		if !slices.ContainsFunc(container["ports"].([]any), func(p any) bool { return at(p, "name") == port }) {
			t.Errorf("%s: %s asks port %v, which the container does not have", name, probe, port)
		}
	}
}

// The configuration of the values reaches both programs, as YAML, and pods start anew when it changes.
func TestChartHasTheConfiguration(t *testing.T) {
	annotations := map[any]bool{}
	for _, parallel := range []int{4, 5} {
		want := object{"cron": object{"parallel": parallel}, "serve": object{"host": []any{"a", "b"}}}
		for _, o := range charted(t, map[string]any{"serve.enabled": true, "config.cron": want["cron"], "config.serve": want["serve"], "store.require": ""}) {
			switch {
			case o["kind"] == "Deployment":
				container := at(o, "spec.template.spec.containers").([]any)[0].(object)
				if !slices.ContainsFunc(container["env"].([]any), func(v any) bool {
					return at(v, "name") == "SOLOIST_CONFIG" && at(v, "value") == "/run/soloist-config/soloist.yaml"
				}) {
					t.Errorf("%v does not get it: %v", at(o, "metadata.name"), container["env"])
				}
				annotations[at(o, "spec.template.metadata.annotations").(object)["checksum/config"]] = true
			case at(o, "metadata.name") == "jobs-config":
				if got := documents(t, at(o, "data").(object)["soloist.yaml"].(string))[0]; !reflect.DeepEqual(got, want) {
					t.Errorf("it is %v, want %v", got, want)
				}
			}
		}
	}
	if len(annotations) != 2 {
		t.Errorf("annotations of two configurations: %v", annotations)
	}
}

// Each value of the chart is used.
func TestValuesAreUsed(t *testing.T) {
	var templates string
	files, _ := filepath.Glob("helm/soloist/templates/*.yaml")
	for _, file := range files {
		templates += read(t, file)
	}
	for section, values := range documents(t, read(t, "helm/soloist/values.yaml"))[0] {
		names := []string{section}
		if m, ok := values.(object); ok {
			names = names[:0]
			for key := range m {
				names = append(names, section+"."+key)
			}
		}
		for _, name := range names {
			if !regexp.MustCompile(`\.Values\.` + regexp.QuoteMeta(name) + `\b`).MatchString(templates) {
				t.Errorf("%s is not used", name)
			}
		}
	}
}

// What the packages contain is in the repository, or made by make dist.
func TestPackagesHaveTheirFiles(t *testing.T) {
	makefile := read(t, "../Makefile")
	packages := documents(t, read(t, "packages/nfpm.yaml"))[0]
	sources := []string{at(packages, "scripts.postinstall").(string)}
	for _, c := range packages["contents"].([]any) {
		if src, ok := at(c, "src").(string); ok {
			sources = append(sources, src)
		}
	}
	if len(sources) < 10 {
		t.Errorf("only %d files", len(sources))
	}
	for _, src := range sources {
		if made, ok := strings.CutPrefix(src, "bin/dist/"); ok {
			if made = strings.TrimSuffix(made, "/*.gz"); !strings.Contains(makefile, "$(DIST)/"+made) {
				t.Errorf("the Makefile does not make %s", src)
			}
			continue
		}
		if _, err := os.Stat(filepath.Join("..", src)); err != nil {
			t.Error(err)
		}
	}
}

// A release has the packages that make packages makes.
func TestReleaseHasThePackages(t *testing.T) {
	release := documents(t, read(t, "../.goreleaser.yaml"))[0]["nfpms"].([]any)[0]
	packages := documents(t, read(t, "packages/nfpm.yaml"))[0]
	contents := slices.DeleteFunc(packages["contents"].([]any), func(c any) bool { return at(c, "dst") == at(release, "bindir").(string)+"/soloist" })
	for what, same := range map[string]bool{
		"contents":   reflect.DeepEqual(at(release, "contents"), any(contents)),
		"scripts":    reflect.DeepEqual(at(release, "scripts"), packages["scripts"]),
		"maintainer": at(release, "maintainer") == packages["maintainer"],
		"license":    at(release, "license") == packages["license"],
	} {
		if !same {
			t.Errorf("%s of packages differ in .goreleaser.yaml and packages/nfpm.yaml", what)
		}
	}
}

// The services of the compose file name what is defined in it.
func TestCompose(t *testing.T) {
	compose := documents(t, read(t, "compose.yaml"))[0]
	services := compose["services"].(object)
	if got := slices.Sorted(maps.Keys(services)); !slices.Equal(got, []string{"cron", "db", "migrate", "serve"}) {
		t.Errorf("services: %v", got)
	}
	for name, s := range services {
		secrets, _ := at(s, "secrets").([]any)
		for _, secret := range secrets {
			if at(compose, "secrets."+secret.(string)) == nil {
				t.Errorf("%s: there is no secret %s", name, secret)
			}
		}
		needs, _ := at(s, "depends_on").(object)
		for other := range needs {
			if services[other] == nil {
				t.Errorf("%s: there is no service %s", name, other)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
