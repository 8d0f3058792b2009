//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretWord is in all contents, and must be in no file.
const secretWord = "QUICKSILVER"

const sealedWorkflow = `
workflow: patient
defaults: {complete_within: 1m, retry: {attempts: 1, then: park}}
labels: {subject: "${ input.patient }"}
input: {type: object, required: [patient, dose, note], properties: {dose: {type: number}}}
steps:
  check: {agent: echo, if: input.dose > 1, with: {text: "${ input.note + ' checked' }"}, fail_if: "output.text == 'never'"}
  ask: {needs: [check], wait: {signal: answer, schema: {type: object, required: [secret]}}}
  whole: {needs: [ask], agent: echo}
  last: {needs: [whole], agent: "echo", with: {text: "${ steps.check.output.text }", secret: "${ steps.ask.output.payload.secret }"}}
output: "${ steps.last.output }"
`

// sealedShop is a running engine that seals.
type sealedShop struct {
	t       *testing.T
	at      place
	p       *program
	api     string
	brokers string
}

func newSealedShop(t *testing.T) *sealedShop {
	s := &sealedShop{t: t, at: place{dir: t.TempDir()}}
	for name, text := range map[string]string{
		"w/patient.yaml": sealedWorkflow,
		"w/broken.yaml":  "workflow: broken\ndefaults: {complete_within: 1m, retry: {attempts: 1, then: park}}\nsteps:\n  no: {agent: refuse}\n",
		"a/echo.yaml":    "agent: echo\nexec: {command: [cat], env: [PATH]}\n",
		"a/refuse.yaml":  "agent: refuse\nexec: {command: [sh, -c, 'cat >&2; exit 3'], env: [PATH]}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(s.at.dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(s.at.dir, name), []byte(text), 0o600))
	}
	s.sagalog("key", "create", "seal.key")
	s.start()
	return s
}

func (s *sealedShop) start() {
	_ = os.Remove(filepath.Join(s.at.dir, "sagalog-data", endpointsFile)) // that of an earlier start
	s.p = s.at.start(s.t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--workflows", "w", "--agents", "a",
		"--keep-inputs", "--seal-key-file", "seal.key")
	e := s.p.endpoints(filepath.Join(s.at.dir, "sagalog-data"))
	s.api, s.brokers = e.HTTP, e.Kafka
	s.at.env = []string{"SAGALOG_API=" + e.HTTP}
}

// sagalog runs a command that must succeed.
func (s *sealedShop) sagalog(args ...string) string {
	s.t.Helper()
	p := s.at.run(s.t, args...)
	require.Equal(s.t, 0, p.code(), p.err.String())
	return p.out.String()
}

func (s *sealedShop) submit(id, patient, note string, more ...string) string {
	input, err := json.Marshal(map[string]any{"patient": patient, "dose": 12.5, "note": note})
	require.NoError(s.t, err)
	return s.sagalog(append([]string{"task", "submit", "-w", "patient", "--id", id, "--input", string(input)}, more...)...)
}

// await waits until a document of a task says something.
func (s *sealedShop) await(id, say string) string {
	s.t.Helper()
	var doc string
	s.p.eventually(say, func() bool {
		answer, err := http.Get(s.api + "/v1/tasks/" + id)
		require.NoError(s.t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(s.t, err)
		doc = string(text)
		return strings.Contains(doc, say)
	})
	return doc
}

// leaks returns the files that hold the word, and what was logged counts as one.
func (s *sealedShop) leaks() (files []string) {
	require.NoError(s.t, filepath.WalkDir(filepath.Join(s.at.dir, "sagalog-data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secretWord)) {
			files = append(files, path)
		}
		return err
	}))
	if log := s.p.out.String() + s.p.err.String(); strings.Contains(log, secretWord) {
		files = append(files, "the log: "+log)
	}
	return files
}

func TestAnErasedSubjectIsGoneWhileItsHistoryStays(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	s := newSealedShop(t)
	s.submit("done", "c-17", secretWord+" one")
	s.submit("done", "c-17", secretWord+" one") // a repeat
	s.submit("under-way", "c-17", secretWord+" two")
	s.submit("kept", "c-18", secretWord+" three")
	s.sagalog("task", "submit", "-w", "broken", "--id", "broken", "--label", "subject=c-17", "--input", `"`+secretWord+` four"`)
	for _, id := range []string{"done", "under-way", "kept"} {
		s.await(id, `"waiting"`)
	}
	s.sagalog("task", "signal", "done", "answer", "--payload", `{"secret":"`+secretWord+` five"}`)
	done := s.await("done", `"processed"`)
	for _, text := range []string{"one checked", "five"} {
		require.Contains(t, done, secretWord+" "+text, "expressions see contents, and a node with the key shows them")
	}
	require.Contains(t, s.sagalog("task", "history", "done", "-o", "jsonl"), secretWord+" one checked")
	require.Contains(t, s.await("broken", `"error"`), secretWord+" four", "the message of an agent is in the detail")
	for _, args := range [][]string{{"get", "broken"}, {"list", "--state", "parked"}, {"history", "broken"}} {
		shown := s.sagalog(append([]string{"task"}, args...)...)
		require.Regexp(t, `step "no": no retry can help: .*exited with 3: .*`+secretWord+` four`, shown, "a node with the key shows it as any message")
		require.NotContains(t, shown, "sealed")
	}
	require.Empty(t, s.leaks(), "neither a topic, nor a store, nor the log has it before the erasure")

	require.Contains(t, s.sagalog("key", "list", "--brokers", s.brokers), `"c-17"`)
	unasked := s.at.run(t, "namespace", "erase", "--brokers", s.brokers, "--subject", "c-17")
	require.Equal(t, 2, unasked.code(), "there is no terminal")
	require.Regexp(t, `the tasks of subject "c-17" will be lost: .* sealed with 1 data key, .* give --yes`, unasked.err.String())
	require.Contains(t, s.await("done", secretWord), `"processed"`, "nothing is erased")
	require.Contains(t, s.sagalog("namespace", "erase", "--brokers", s.brokers, "--subject", "c-17", "--yes"), "erased: 1 data key of subject")
	again := s.at.run(t, "namespace", "erase", "--brokers", s.brokers, "--subject", "c-17", "--yes")
	require.Equal(t, 1, again.code())
	require.Contains(t, again.err.String(), "erased before")
	erased := s.await("done", `"$erased":"`)
	require.NotContains(t, erased, secretWord)
	require.Contains(t, erased, `"processed"`)
	require.NotContains(t, s.sagalog("task", "history", "done", "-o", "jsonl"), secretWord)
	require.NotContains(t, s.sagalog("task", "get", "broken", "-o", "json"), secretWord)
	require.Contains(t, s.sagalog("task", "get", "broken"), "the message is sealed")
	late := s.at.run(t, "task", "signal", "under-way", "answer", "--payload", `{"secret":"`+secretWord+` six"}`)
	require.Equal(t, 4, late.code(), late.err.String())
	require.Contains(t, late.err.String(), "the content was erased on ")
	repeat := s.at.run(t, "task", "submit", "-w", "patient", "--id", "done", "--input", `{"patient":"c-17","dose":12.5,"note":"`+secretWord+` one"}`)
	require.Equal(t, 4, repeat.code())
	require.Contains(t, repeat.err.String(), "the content was erased on ")
	job := `{"id":"answers","verb":"signal","args":{"signal":"answer","payload":{"secret":"` + secretWord + ` seven"}},"filter":{"label":"subject:c-18"}}`
	for _, status := range []int{http.StatusAccepted, http.StatusOK} { // the arguments are sealed with other bytes each time
		answer, err := http.Post(s.api+"/v1/jobs", "application/json", strings.NewReader(job))
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, string(text))
		require.Contains(t, string(text), secretWord+" seven")
	}
	require.Contains(t, s.await("kept", `"processed"`), secretWord+" seven", "other subjects are as before")
	require.Empty(t, s.leaks())

	require.Equal(t, 0, s.p.stop())
	require.NotContains(t, s.sagalog("state", "hash", "--data", "sagalog-data", "--rebuild"), "differs", "the log folds to the same hash, without any key")
	s.start()
	require.Contains(t, s.await("under-way", `"$erased":"`), `"waiting"`)
	s.sagalog("task", "cancel", "under-way")
	s.await("under-way", `"undone"`)
	require.Equal(t, 0, s.p.stop())
}

func TestANodeWithoutTheKeyOfItsNamespaceDoesNotStart(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	s := newSealedShop(t)
	s.submit("one", "c-17", secretWord)
	s.await("one", `"waiting"`)
	require.Equal(t, 0, s.p.stop())
	p := s.at.run(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), "--seal-key-file")
	require.NoError(t, os.Chmod(filepath.Join(s.at.dir, "seal.key"), 0o644))
	p = s.at.run(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--seal-key-file", "seal.key")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), "chmod 600")
}

// With the key file of another namespace nothing could be opened, and each submission would be answered as if the brokers were away.
func TestANodeWithAnotherKeyFileDoesNotStart(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	s := newSealedShop(t)
	s.submit("one", "c-17", secretWord)
	s.await("one", `"waiting"`)
	require.Equal(t, 0, s.p.stop())
	s.sagalog("key", "create", "other.key")
	p := s.at.run(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--seal-key-file", "other.key")
	require.Equal(t, 1, p.code())
	require.Regexp(t, `--seal-key-file: other.key does not hold the key that wraps the data keys of namespace sagalog \([0-9a-f]{8}\).*Use the file that the other nodes have`, p.err.String())
}

func TestTheKeyFileIsReplacedWhileTheEngineRuns(t *testing.T) {
	t.Parallel()
	s := newSealedShop(t)
	s.submit("one", "c-17", secretWord)
	s.await("one", `"waiting"`)
	file := filepath.Join(s.at.dir, "seal.key")
	require.NoError(t, os.Chmod(file, 0o640))
	require.NoError(t, os.WriteFile(file+".new", []byte("what an older program left"), 0o600))
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, s.sagalog("key", "create", "seal.key"), "The second line of seal.key is a new key, and the first one still encrypts")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode(), "who could read it still can")
	left, err := filepath.Glob(filepath.Join(s.at.dir, ".seal.key*"))
	require.NoError(t, err)
	require.Empty(t, left)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Fields(string(text))
	require.Len(t, lines, 2)
	require.Equal(t, strings.TrimSpace(string(before)), lines[0], "nothing is wrapped with the new key before all processes have it")
	require.Contains(t, s.sagalog("key", "rewrap", "--brokers", s.brokers, "--seal-key-file", "seal.key"), "0 data keys wrapped again")
	lines[0], lines[1] = lines[1], lines[0]
	require.NoError(t, os.WriteFile(file, []byte(lines[0]+"\n"+lines[1]+"\n"), 0o600))
	require.Contains(t, s.sagalog("key", "rewrap", "--brokers", s.brokers, "--seal-key-file", "seal.key"), "1 data keys wrapped again")
	require.NoError(t, os.WriteFile(file, []byte(lines[0]+"\n"), 0o600))
	id := strings.TrimSpace(s.sagalog("key", "rotate", "--brokers", s.brokers, "--seal-key-file", "seal.key", "--subject", "c-17"))
	require.Regexp(t, regexp.MustCompile("^[0-9a-f]{16}$"), id)
	require.Contains(t, s.sagalog("key", "list", "--brokers", s.brokers, "-o", "json"), id)
	require.Equal(t, 0, s.p.stop())
	s.start()
	s.sagalog("task", "signal", "one", "answer", "--payload", `{"secret":"`+secretWord+` two"}`)
	require.Contains(t, s.await("one", `"processed"`), secretWord+" two")
	require.Empty(t, s.leaks())
	require.Equal(t, 0, s.p.stop())
}

// An operator compares the key files of machines by the IDs of their keys, and sees no key.
func TestTheIDsOfAKeyFileAreShownWithoutItsKeys(t *testing.T) {
	t.Parallel()
	at := place{dir: t.TempDir()}
	require.Equal(t, 0, at.run(t, "key", "create", "seal.key").code())
	require.Equal(t, 0, at.run(t, "key", "create", "seal.key").code())
	lines, err := os.ReadFile(filepath.Join(at.dir, "seal.key"))
	require.NoError(t, err)
	table := at.run(t, "key", "show", "seal.key")
	require.Equal(t, 0, table.code(), table.err.String())
	require.Regexp(t, `(?m)^1 +[0-9a-f]{8} +wraps new data keys, and opens what it wrapped\n2 +[0-9a-f]{8} +opens what it wrapped before\n$`, table.out.String())
	list := at.run(t, "keys", "show", "seal.key", "-o", "json")
	var keys []shownKey
	require.NoError(t, json.Unmarshal([]byte(list.out.String()), &keys))
	require.Len(t, keys, 2)
	require.NotEqual(t, keys[0].ID, keys[1].ID)
	require.Equal(t, []bool{true, false}, []bool{keys[0].Wraps, keys[1].Wraps})
	for _, line := range strings.Fields(string(lines)) {
		require.NotContains(t, table.out.String()+list.out.String(), line[:16])
	}
	require.Equal(t, 1, at.run(t, "key", "show", "nothing.key").code())
}
