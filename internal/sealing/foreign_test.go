package sealing_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example in Python knows only events/FORMAT.md: it opens what we seal, and seals what we open.
func TestTheExampleInPythonOpensAndSeals(t *testing.T) {
	python := pythonThatSeals()
	if python == "" {
		t.Skip("no python3 here has the package cryptography; .ci/run e2e installs it (Debian's python3-cryptography) and runs this test")
	}
	p := newPlace(t)
	k := p.open(t)
	first := seal(t, k, "c-17", secretInput)
	_, err := k.Rotate(t.Context(), "c-17")
	require.NoError(t, err)
	var in bytes.Buffer
	for _, r := range p.records(t) {
		line, err := json.Marshal(map[string]string{"key": string(r.Key), "value": string(r.Value)})
		require.NoError(t, err)
		in.Write(append(line, '\n'))
	}
	in.Write(first)
	cmd := exec.Command(python, "../../docs/examples/sealing/sealed.py", namespaceID, p.file)
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Equal(t, secretInput, lines[0])
	require.Equal(t, secretInput, opened(t, k, []byte(lines[1])))
	require.NotEqual(t, string(first), lines[1])
}

// pythonThatSeals returns an interpreter that has the package cryptography, the system's before others; "" if none has.
func pythonThatSeals() string {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import cryptography").Run() == nil {
			return python
		}
	}
	return ""
}
