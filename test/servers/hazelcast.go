//go:build unix

package servers

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"
)

// The versions of Hazelcast, as they are published. 5.5 and later have a CP Subsystem only with a license.
const (
	hazelcast54 = "5.4.0"
	hazelcast55 = "5.5.0"
)

//go:embed testdata/hazelcast.xml
var hazelcastXML string

var hazelcastTemplate = template.Must(template.New("hazelcast.xml").Parse(hazelcastXML))

// HazelcastName is the name of the clusters of Hazelcast.
const HazelcastName = "soloist"

// A HazelcastServer is a member of Hazelcast.
type HazelcastServer struct {
	*Process
	Addr string
}

// hazelcastMember is what the configuration of a member is made of.
type hazelcastMember struct {
	Version      string
	CP           int // how many members of the CP Subsystem there are to be; 0 turns it off
	Host, Public string
	Port         int
	Members      []string
	Majority     int
}

// Hazelcast starts a cluster of one member. The map "expiring" has a time to live, and "idling" one after the last use.
func Hazelcast(t Test) *HazelcastServer {
	t.Helper()
	return oneHazelcast(t, hazelcast55)
}

// HazelcastUnsafe starts a cluster of one member of 5.4 whose CP Subsystem is off: its structures work, without Raft.
func HazelcastUnsafe(t Test) *HazelcastServer {
	t.Helper()
	return oneHazelcast(t, hazelcast54)
}

func oneHazelcast(t Test, version string) *HazelcastServer {
	t.Helper()
	port := FreePort(t)
	return startHazelcast(t, hazelcastMember{Version: version, Host: "127.0.0.1", Public: address(port), Port: port, Members: []string{address(port)}, Majority: 2})
}

func startHazelcast(t Test, m hazelcastMember) *HazelcastServer {
	t.Helper()
	java := Program(t, "Java", "java")
	path, dir := jars(t, artifact("com.hazelcast:hazelcast:"+m.Version)), Directory(t)
	var xml strings.Builder
	if err := hazelcastTemplate.Execute(&xml, m); err != nil {
		t.Fatalf("writing the configuration of Hazelcast: %v", err)
	}
	config := filepath.Join(dir, "hazelcast.xml")
	if err := os.WriteFile(config, []byte(xml.String()), 0o644); err != nil {
		t.Fatalf("writing the configuration of Hazelcast: %v", err)
	}
	args := []string{
		"-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-modules", "java.se",
		"--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED",
		"--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens", "java.management/sun.management=ALL-UNNAMED",
		"--add-opens", "jdk.management/com.sun.management.internal=ALL-UNNAMED",
		"-Dhazelcast.config=" + config, "-Dhazelcast.local.localAddress=" + m.Host, "-cp", path, "com.hazelcast.core.server.HazelcastMemberStarter",
	}
	addr := fmt.Sprintf("%s:%d", m.Host, m.Port)
	p := &Process{name: fmt.Sprintf("hazelcast-%d", m.Port), path: java, args: args, dir: dir}
	p.ready = func(ctx context.Context) error { return errors.Join(listening(addr)(ctx), p.started()) }
	return &HazelcastServer{Process: launch(t, p), Addr: addr}
}

// started is nil once the log says that the member has started, as often as it was begun. A member that starts listens long before.
func (p *Process) started() error {
	text, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err
	}
	if begun := strings.Count(string(text), "Loading configuration"); begun == 0 || strings.Count(string(text), "is STARTED") < begun {
		return errors.New("it has not started yet")
	}
	return nil
}

// Safe reports whether a member sees so many members and each entry has its backups.
func (s *HazelcastServer) Safe(members int) bool {
	ask := func(path string) string {
		client := http.Client{Timeout: time.Second}
		response, err := client.Get("http://" + s.Addr + "/hazelcast/health/" + path)
		if err != nil {
			return ""
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return fmt.Sprint(response.StatusCode, " ", string(text))
	}
	return ask("cluster-size") == fmt.Sprintf("200 %d", members) && strings.HasPrefix(ask("cluster-safe"), "200 ")
}

// A HazelcastCluster is a cluster whose members reach each other through proxies, so that it can be cut in two. Only Linux lets them have an address each
// without more ado. Members find each other a moment after they have started. The map "protected" has split brain protection.
type HazelcastCluster struct {
	Members []*HazelcastServer

	like   hazelcastMember // what the members are, but for their addresses
	public []string        // where the members reach each other

	mu     sync.Mutex
	alone  int // the member that is cut off, or -1
	links  map[net.Conn][2]int
	before map[int]string // by the process of a member that was started again: what it was in the CP Subsystem
}

// hazelcastHost is the address of a member. A member connects from it, too, by which the others' proxies know it.
func hazelcastHost(i int) string { return fmt.Sprintf("127.0.0.%d", 11+i) }

// NewHazelcastCluster starts a cluster of n members.
func NewHazelcastCluster(t Test, n int) *HazelcastCluster {
	t.Helper()
	return newHazelcastCluster(t, n, hazelcastMember{Version: hazelcast55})
}

// NewHazelcastCP starts a cluster of three members of 5.4 with the CP Subsystem, which is ready a moment after they have started.
func NewHazelcastCP(t Test) *HazelcastCluster {
	t.Helper()
	return newHazelcastCluster(t, 3, hazelcastMember{Version: hazelcast54, CP: 3})
}

// newHazelcastCluster starts a cluster of n members that are as m.
func newHazelcastCluster(t Test, n int, m hazelcastMember) *HazelcastCluster {
	t.Helper()
	c := &HazelcastCluster{alone: -1, links: map[net.Conn][2]int{}, before: map[int]string{}, like: m}
	ports, public := make([]int, n), make([]string, n)
	for i := range n {
		ports[i] = FreePort(t)
		l, err := net.Listen("tcp", hazelcastHost(i)+":0")
		if err != nil {
			t.Fatalf("making a proxy of Hazelcast: %v", err)
		}
		t.Cleanup(func() { _ = l.Close() })
		public[i] = l.Addr().String()
		go c.serve(l, n, i, fmt.Sprintf("%s:%d", hazelcastHost(i), ports[i]))
	}
	c.public = public
	for i := range n {
		m.Host, m.Public, m.Port, m.Members, m.Majority = hazelcastHost(i), public[i], ports[i], public, n/2+1
		c.Members = append(c.Members, startHazelcast(t, m))
	}
	return c
}

// Join starts one more member, without the CP Subsystem, which ends with the test.
func (c *HazelcastCluster) Join(t Test) *HazelcastServer {
	t.Helper()
	m, port := c.like, FreePort(t)
	m.CP, m.Host, m.Public, m.Port, m.Members, m.Majority = 0, "127.0.0.1", address(port), port, append(slices.Clone(c.public), address(port)), 2
	return startHazelcast(t, m)
}

// Replace makes a member that was started again one of the CP Subsystem, in place of the one that it was before, as an operator does. It is called until it reports that all
// members are of the CP Subsystem and of a group.
func (c *HazelcastCluster) Replace(m *HazelcastServer, group string) bool {
	own := c.public[slices.Index(c.Members, m)]
	c.mu.Lock()
	before := c.before[m.PID()]
	c.mu.Unlock()
	all := m.cpMembers("members")
	for _, found := range all {
		switch {
		case strings.NewReplacer("[", "", "]", "").Replace(found.Address) != own:
		case before == "" || before == found.UUID:
			before = found.UUID
			m.change("members/" + found.UUID + "/remove")
		}
	}
	c.mu.Lock()
	c.before[m.PID()] = before
	c.mu.Unlock()
	switch {
	case len(all) == 0 || before == "":
		return false
	case len(all) < len(c.Members):
		m.change("members")
		return false
	}
	text, _ := os.ReadFile(m.LogFile())
	life := string(text)[max(0, strings.LastIndex(string(text), "is STARTED")):]
	for _, of := range []string{"METADATA", group} {
		// A group has a new member before that member has begun to take part. If another one ended then, two would be missing.
		if !strings.Contains(life, "RaftNode[CPGroupId{name='"+of+"'") {
			return false
		}
		members := m.cpMembers("groups/" + of)
		for _, found := range all {
			if found.UUID == before || !slices.ContainsFunc(members, func(m cpMember) bool { return m.UUID == found.UUID }) {
				return false
			}
		}
	}
	return true
}

// A cpMember is a member of the CP Subsystem. It has another UUID each time it is made one.
type cpMember struct{ UUID, Address string }

// cpMembers returns the members of the CP Subsystem, or of a group, that a member knows.
func (s *HazelcastServer) cpMembers(path string) (found []cpMember) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + s.Addr + "/hazelcast/rest/cp-subsystem/" + path)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	var group struct{ Members any }
	if json.Unmarshal(text, &group) == nil {
		text, _ = json.Marshal(group.Members)
	}
	_ = json.Unmarshal(text, &found)
	return found
}

// change asks a member to change the CP Subsystem.
func (s *HazelcastServer) change(path string) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Post("http://"+s.Addr+"/hazelcast/rest/cp-subsystem/"+path, "text/plain", strings.NewReader(HazelcastName+"&"))
	if err == nil {
		_ = response.Body.Close()
	}
}

// serve passes connections to a member on. Those from members that cannot reach it are closed.
func (c *HazelcastCluster) serve(l net.Listener, n, to int, addr string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		from := -1
		for i := range n {
			if host, _, _ := net.SplitHostPort(client.RemoteAddr().String()); host == hazelcastHost(i) {
				from = i
			}
		}
		go c.pass(client, addr, from, to)
	}
}

func (c *HazelcastCluster) pass(client net.Conn, addr string, from, to int) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	if c.separated(from, to) {
		c.mu.Unlock()
		return
	}
	c.links[client] = [2]int{from, to}
	c.mu.Unlock()
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
	c.mu.Lock()
	delete(c.links, client)
	c.mu.Unlock()
}

// separated reports whether two members cannot reach each other. Clients, -1, reach all.
func (c *HazelcastCluster) separated(a, b int) bool {
	return c.alone >= 0 && a >= 0 && (a == c.alone) != (b == c.alone)
}

// Cut keeps one member apart from the others. Clients still reach all of them.
func (c *HazelcastCluster) Cut(alone int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = alone
	for client, link := range c.links {
		if c.separated(link[0], link[1]) {
			_ = client.Close()
		}
	}
}

// Heal lets the members reach each other again.
func (c *HazelcastCluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = -1
}
