package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
)

// oldest is the oldest build beside which today's nodes must work. Nothing has been released, and level 1 is still being made: this is the
// build from which on its format stays. Older ones stop, with an error, where they meet a fact of today: those before b1984bed look for the
// headers ce_epoch and ce_sequence, which nobody writes any more, and those before 9bd16d80 do not know the facts of a carry. Who changes the
// format of level 1 again names another commit here. After the first release it is the oldest release that may be upgraded in one step.
const oldest = "4bca7589ca6d8cb1d6b9d108c216eb7bcce13bca"

// newLevel is the level that the build under test understands, and the oldest build does not.
const newLevel = events.FormatVersion + 1

// oftenHangs is high enough that a stream of few deliveries has attempts that hang and are retried.
const oftenHangs = "package=0.1"

// TestUpgrade upgrades three nodes under load, rolls one of them back, and raises the level of the namespace.
func TestUpgrade(t *testing.T) {
	if *deliveriesFlag == 0 && !full {
		t.Skip("builds two versions of sagalog and takes two minutes: " + sayHow)
	}
	besideOthers(t)
	was, now := oldBuild(t), nextBuild(t)
	work := workDir(t)
	b := newBroker(t, work)
	b.launch()
	b.ready()
	upgrade(clusterOn(t, work, []string{b.addr}, "--refuse", "drone=0.1", "--hang", oftenHangs), was, now)
	b.end()
}

// TestClusterUpgrade is TestUpgrade on Apache Kafka.
func TestClusterUpgrade(t *testing.T) {
	besideOthers(t)
	c := newCluster(t, kafkatest.Options{}, "--refuse", "drone=0.1", "--hang", oftenHangs)
	upgrade(c, oldBuild(t), nextBuild(t))
}

// upgrade is what docs/upgrading.md tells operators to do, with accidents: nodes of the old build and of the new one are killed on the way.
func upgrade(c *cluster, was, now string) {
	t := c.t
	nodes := []*member{c.node("n1"), c.node("n2"), c.node("n3")}
	for _, m := range nodes {
		m.program = was
		m.start()
	}
	c.even(patience)
	s := c.stream("u-", sized(*rateFlag, 8, 20), nodes...)
	n1, n2, n3 := nodes[0], nodes[1], nodes[2]

	n1.leave()
	n1.runs(now)
	n2.kill() // its partitions go to an old node and to a new one
	c.even(patience)
	n2.runs(now)
	n1.kill()
	n1.runs(now)
	n1.refusesToUpgrade(now, n3)

	n1.leave()
	n1.runs(was) // back to the old build, on the store that the new one has written
	n2.kill()    // and what the new one owned goes to old nodes
	c.even(patience)
	n2.runs(now)
	n2.refusesToUpgrade(now, n1, n3)
	n2.refusesTheNewKey(now)

	n1.kill()
	n1.runs(now)
	n3.leave()
	n3.runs(now)
	l := s.end()
	c.ended(l)
	f := c.agree(l) // by the fold of this process, which does not understand the new level
	require.Positive(t, f.Ends["undone"])
	require.Positive(t, f.Log.Retries)
	require.Len(t, f.Ownership.Owners, 3)
	c.lies(l, 2)

	s = c.stream("v-", sized(*rateFlag, 8, 20), nodes...)
	eventually(t, patience, "the level rises", func() bool { // a node that was killed counts until its heartbeats are missed
		code, out, errs := output(t, now, "namespace", "upgrade", "--to", fmt.Sprint(newLevel), "--by", "ada", "--api", n2.HTTP)
		t.Logf("namespace upgrade: %s%s", out, errs)
		return code == 0
	})
	n2.takesTheNewKey(now)

	n1.kill() // too late to go back
	n1.refusesToStart(was)
	n1.runs(now)
	c.ended(s.end())
	c.proved(now)
}

// runs starts the node with a build, and waits until each node has its share of the partitions.
func (m *member) runs(build string) {
	m.t.Helper()
	m.program = build
	m.start()
	m.c.even(patience)
}

// refusesToUpgrade requires that the level cannot be raised while old nodes run.
func (m *member) refusesToUpgrade(now string, old ...*member) {
	m.t.Helper()
	eventually(m.t, patience, "the upgrade is refused because of an old node", func() bool {
		code, out, errs := output(m.t, now, "namespace", "upgrade", "--to", fmt.Sprint(newLevel), "--api", m.HTTP)
		require.NotZero(m.t, code, out)
		for _, o := range old {
			if strings.Contains(errs, o.name) {
				return true
			}
		}
		return false // this node has not listened for long enough
	})
}

// refusesToStart requires that a build that does not understand the level of the namespace owns no partition, and says what to do. It ends if
// its state on disk is of the new level. If the node was killed before it wrote that, the older build starts on the older state, and stays up
// without partitions once it reads of the level.
func (m *member) refusesToStart(build string) {
	m.t.Helper()
	said := len(read(m.t, m.err))
	m.process = start(m.t, command{name: m.name, dir: m.work, program: build, args: m.args, env: m.env})
	says := func() string { return m.stderr()[said:] }
	eventually(m.t, patience, "the older build ends, or says that it owns no partition", func() bool {
		return !m.running() || strings.Contains(says(), "this node owns no partition any more")
	})
	if !m.running() {
		require.NotZero(m.t, m.wait(patience))
		require.Contains(m.t, tail(m.err, 20), "run the newer version of sagalog that wrote it")
		return
	}
	require.Contains(m.t, says(), "this takes level 2, and this build understands level 1: upgrade this node")
	require.NotContains(m.t, says(), "this node has taken the partition over")
	m.kill()
}

// newer is a workflow with a key that needs the new level.
const newer = "workflow: newer\nlabels: {kind: new}\nsteps:\n  nap: {sleep: 100ms}\n"

func (m *member) apply(build string) (code int, says string) {
	m.t.Helper()
	file := filepath.Join(m.work, "newer.yaml")
	require.NoError(m.t, os.WriteFile(file, []byte(newer), 0o600))
	code, out, errs := output(m.t, build, "workflow", "apply", file, "--api", m.HTTP)
	return code, out + errs
}

func (m *member) refusesTheNewKey(now string) {
	m.t.Helper()
	code, says := m.apply(now)
	require.NotZero(m.t, code, says)
	require.Contains(m.t, says, "namespace upgrade")
}

// takesTheNewKey applies the workflow and has a task of it in many partitions.
func (m *member) takesTheNewKey(now string) {
	m.t.Helper()
	code, says := m.apply(now)
	require.Zero(m.t, code, says)
	for i := range 40 {
		body, err := json.Marshal(map[string]any{"id": fmt.Sprintf("newer-%d", i), "workflow": "newer"})
		require.NoError(m.t, err)
		status, b, err := m.try("POST", "/v1/tasks", body)
		require.NoError(m.t, err)
		require.Less(m.t, status, 300, "%s", b)
	}
	eventually(m.t, patience, "the tasks of the new workflow end", func() bool {
		return len(m.list("limit=100&workflow=newer&state=processed")) == 40
	})
}

// proved stops the nodes, and runs `sagalog verify` on everything that is left: log, inputs, effects, ledgers and stores.
func (c *cluster) proved(build string) {
	c.t.Helper()
	args := []string{"verify", "--brokers", c.brokers, "--ledgers", c.fleet.dir, "--at-rest"}
	for _, m := range c.nodes {
		m.leave()
		args = append(args, "--store", m.data)
	}
	code, out, errs := output(c.t, build, args...)
	require.Zero(c.t, code, "%s\n%s", out, errs)
	c.t.Logf("sagalog verify:\n%s", strings.TrimSpace(out))
}

// oldBuild builds the oldest version beside which today's must work, from the repository's history. The build is kept beside Go's caches.
func oldBuild(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "sagalog", oldest+"-"+runtime.Version())
	path := filepath.Join(dir, "sagalog")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if shallow := git(t, "rev-parse", "--is-shallow-repository"); exec.Command("git", "-C", root, "cat-file", "-e", oldest+"^{commit}").Run() != nil {
		require.Equal(t, "true", shallow, "the commit %s is not in the history", oldest)
		t.Skipf("SKIPPED: this clone is shallow and lacks the commit %s that is upgraded (git fetch --unshallow)", oldest)
	}
	from := workDir(t)
	git(t, "archive", "--format=tar", "-o", filepath.Join(from, "source.tar"), oldest)
	out, err := exec.Command("tar", "-x", "-C", from, "-f", filepath.Join(from, "source.tar")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	built := fmt.Sprintf("%s-%s-%d", path, t.Name(), os.Getpid()) // another run may be at the same point
	build := exec.Command("go", "build", "-buildvcs=false", "-o", built, "./cmd/sagalog")
	build.Dir = from
	out, err = build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Rename(built, path))
	return path
}

// root is the root of the repository.
var root = filepath.Join("..", "..")

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// nextBuild builds today's sources as the next release would be: it understands one more level, and one key of the language needs that.
func nextBuild(t *testing.T) string {
	t.Helper()
	work, path := workDir(t), program("sagalog-next")
	overlay := map[string]map[string]string{"Replace": {}}
	for _, change := range []struct{ file, from, to string }{
		{"events/settings.go", fmt.Sprintf("const FormatVersion = %d\n", events.FormatVersion), fmt.Sprintf("const FormatVersion = %d\n", newLevel)},
		{"scheduler/levels.go", "var keyLevels = Levels{", fmt.Sprintf(`var keyLevels = Levels{"labels": %d, `, newLevel)},
	} {
		real, err := filepath.Abs(filepath.Join(root, change.file))
		require.NoError(t, err)
		b, err := os.ReadFile(real)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(b), change.from), change.file)
		changed := filepath.Join(work, filepath.Base(change.file))
		require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(b), change.from, change.to, 1)), 0o600))
		overlay["Replace"][real] = changed
	}
	b, err := json.Marshal(overlay)
	require.NoError(t, err)
	file := filepath.Join(work, "overlay.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", file, "-o", path, "./cmd/sagalog")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}
