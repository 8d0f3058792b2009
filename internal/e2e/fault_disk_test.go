package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// smallDisk mounts an in-memory disk of a few megabytes on a directory.
func smallDisk(t *testing.T, dir string, megabytes int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		t.Skipf("SKIPPED: no small disk can be mounted (%s); run it as root: %s", err, sayHow)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// ballast fills a disk to its last byte and returns a function that frees the space again.
func ballast(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	block := make([]byte, 1<<16)
	for size := len(block); size > 0; {
		if _, err := f.Write(block[:size]); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			size /= 2
		}
	}
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(path)) }
}

// The broker's disk is full while deliveries run. Nothing acknowledged is lost, and when there is room again everything
// continues without a restart. Then broker and engine are killed, so that the files written while the disk was full are
// read again.
func TestAFullDiskOfTheBroker(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	work := workDir(t)
	r := &rig{t: t, work: work, fleet: startFleet(t, work, "--refuse", "drone=0.1"), files: filepath.Join(work, "files")}
	code, _, errs := output(t, program("dronedelivery"), "files", r.files)
	require.Zero(t, code, errs)
	disk := filepath.Join(work, "broker")
	smallDisk(t, disk, 48)
	r.broker = newBroker(t, work)
	r.addr = r.broker.addr
	r.broker.launch()
	r.broker.ready()
	one := r.node("n1")
	one.start()
	l := startLoad(t, one, "f-", 200, 40)
	for range 2 {
		after(t, time.Second)
		free := ballast(t, disk)
		eventually(t, patience, "the broker reports that its disk is full", func() bool {
			return strings.Contains(r.broker.stderr(), "no space left on device")
		})
		begun := time.Now()
		after(t, 2*time.Second)
		free()
		eventually(t, patience, "a submission is accepted again", func() bool {
			id := fmt.Sprintf("probe-%d", begun.UnixNano())
			status, _, err := one.try("PUT", taskPath(id), delivery(id, 1))
			return err == nil && status == 202
		})
		t.Logf("full for 2 s; a submission was acknowledged %s after there was room again", (time.Since(begun) - 2*time.Second).Round(time.Millisecond))
	}
	t.Logf("the broker said: %s", lineWith(r.broker.stderr(), "no space left on device"))
	l.acknowledged(t, patience)
	one.quiet(5 * patience)
	l.agree(t, one, r.fleet.dir)
	r.broker.kill()
	one.kill()
	r.broker.launch()
	r.broker.ready()
	t.Logf("the broker's next start said: %s", tailOf(r.broker.stderr(), 3))
	one.start()
	l.agree(t, one, r.fleet.dir)
	r.sameState(one)
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// The state's disk is full. The node stops with a clear message, or continues. When there is room again its next start
// succeeds, and its state is the fold of the log.
func TestAFullDiskOfTheState(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t, "--refuse", "drone=0.1")
	one := r.node("n1")
	smallDisk(t, one.data, 256) // a start asks for 128 MiB
	one.start()
	l := startLoad(t, one, "f-", 300, 40)
	after(t, time.Second)
	free := ballast(t, one.data)
	select {
	case <-one.ended:
	case <-time.After(10 * time.Second):
	}
	if one.running() {
		t.Logf("the node continues; ready: %t", func() bool { status, _, _ := one.try("GET", "/readyz", nil); return status == 200 }())
		free()
	} else {
		said := tail(one.err, 400)
		t.Logf("the node ended with %d and said: %s", one.cmd.ProcessState.ExitCode(), lineWith(said, madeRoom))
		require.Contains(t, said, "no space left on device: "+madeRoom)
		require.Equal(t, 1, one.cmd.ProcessState.ExitCode())
		require.NotContains(t, said, "goroutine ")
		p := start(t, command{name: "full", dir: one.work, program: program("sagalog"), args: append(one.args, "--data", one.data), env: one.env})
		require.NotZero(t, p.wait(patience), "it must not start on a full disk")
		said = read(t, p.err)
		t.Logf("a start on the full disk: %s", tailOf(said, 1))
		require.Contains(t, said, "has 0 MiB left")
		free()
		begun := time.Now()
		one.start()
		t.Logf("ready %s after there was room again", time.Since(begun).Round(time.Millisecond))
	}
	l.acknowledged(t, patience)
	one.quiet(5 * patience)
	l.agree(t, one, r.fleet.dir)
	r.sameState(one)
}

// madeRoom matches the node's message about a state disk that is full or fails.
const madeRoom = "free some space or repair the disk, then start this process again"

// A directory that cannot be written to is refused within seconds. The message names it.
func TestAReadOnlyDirectoryIsRefused(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	work := workDir(t)
	e := newEngine(t, work, "--demo", "none")
	smallDisk(t, e.data, 256)
	e.start()
	e.stop()
	require.NoError(t, syscall.Mount("", e.data, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	said := e.refused()
	require.Contains(t, said, e.data)
	require.Contains(t, said, "read-only file system")
	require.NoError(t, syscall.Mount("", e.data, "", syscall.MS_REMOUNT, ""))
	e.start()
	e.stop()
}

// The process cannot open any more files. It reports that, loses nothing, and continues when it can open files again.
func TestNoFileHandlesAreLeft(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("SKIPPED: prlimit is not in PATH (apt-get install util-linux): " + sayHow)
	}
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	l := startLoad(t, e, "h-", 200, 40)
	after(t, time.Second)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", e.cmd.Process.Pid))
	require.NoError(t, err)
	limit := func(n int) {
		code, _, errs := output(t, "prlimit", "--pid", strconv.Itoa(e.cmd.Process.Pid), "--nofile="+strconv.Itoa(n)+":")
		require.Zero(t, code, errs)
	}
	limit(len(open) / 2)
	eventually(t, patience, "it reports that it cannot open more files", func() bool {
		// The engine reaches its broker without new file handles: only a new connection needs one.
		if c, err := net.Dial("tcp", strings.TrimPrefix(e.HTTP, "http://")); err == nil {
			_ = c.Close()
		}
		return !e.running() || strings.Contains(e.stderr(), "too many open files")
	})
	t.Logf("%d open, %d allowed; it says: %s", len(open), len(open)/2, lineWith(e.stderr(), "too many open files"))
	after(t, 2*time.Second)
	if e.running() {
		limit(4096)
	} else {
		t.Logf("it ended with exit code %d: %s", e.cmd.ProcessState.ExitCode(), tail(e.err, 1))
		e.start()
	}
	begun := time.Now()
	l.acknowledged(t, patience)
	e.quiet(5 * patience)
	t.Logf("all tasks had ended %s after it was allowed more files", time.Since(begun).Round(time.Millisecond))
	l.agree(t, e, f.dir)
	e.stop()
	for _, row := range stateHash(t, e.data, "--rebuild") {
		require.Equal(t, row.Hash, row.Rebuilt)
	}
}

// With a memory limit that is far too low, the engine is slow but correct.
func TestLittleMemory(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.env = append(e.env, "GOMEMLIMIT=24MiB")
	e.start()
	l := startLoad(t, e, "m-", 100, 40)
	l.acknowledged(t, 2*patience)
	e.quiet(5 * patience)
	l.agree(t, e, f.dir)
	e.stop()
}

// An fsync of the state store fails, which means that the disk may have lost written data. The process ends or reports
// it, and afterwards nothing acknowledged is missing. strace injects the error.
func TestFsyncFails(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("SKIPPED: strace is not in PATH (apt-get install strace); the same is tested in projector's and internal/node's tests by a file system that fails: " + sayHow)
	}
	r := newRig(t)
	one := r.node("n1")
	one.start()
	l := r.deliver(one, "a-", 20)
	trace := filepath.Join(r.work, "trace")
	s := start(t, command{name: "strace", dir: r.work, program: "strace", args: []string{"-f", "-qq", "-o", trace, "-p", strconv.Itoa(one.cmd.Process.Pid),
		"-e", "trace=fsync,fdatasync,sync_file_range", "-e", "inject=fsync,fdatasync:error=EIO"}})
	after(t, time.Second)
	if !s.running() {
		t.Skip("SKIPPED: strace is not permitted to attach here: " + tail(s.err, 1))
	}
	m := startLoad(t, one, "b-", 100, 50)
	after(t, 2*time.Second)
	_ = one.cmd.Process.Signal(syscall.SIGTERM) // if the process is still running, a clean stop makes it sync
	one.wait(patience)
	b, err := os.ReadFile(trace)
	require.NoError(t, err)
	injected := strings.Count(string(b), "(INJECTED)")
	t.Logf("%d fsyncs failed; it ended with %d: %s", injected, one.cmd.ProcessState.ExitCode(), lineWith(one.stderr(), "the disk fails"))
	require.Positive(t, injected, "the fault did not occur:\n%s", b)
	require.NotZero(t, one.cmd.ProcessState.ExitCode(), "it ignored the disk's failure")
	require.Contains(t, one.stderr(), "state store: the disk fails")
	one.start()
	m.acknowledged(t, patience)
	one.quiet(5 * patience)
	l.agree(t, one, r.fleet.dir)
	m.agree(t, one, r.fleet.dir)
	r.sameState(one)
}
