package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADifferenceIsOneOfMeaning(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.yaml":    "workflow: w\nsteps:\n  b: {agent: x, needs: [a]}\n  a: {agent: y, undo: {}}\n",
		"same.json": `{"steps": {"a": {"undo": {"agent": "y"}, "agent": "y", "retry": {"attempts": 5}}, "b": {"needs": ["a"], "agent": "x"}}, "workflow": "w"}`,
		"b.yaml":    "workflow: w\ndeadline: 1h\ndefaults: {retry: {attempts: 3}}\nsteps:\n  a: {agent: y}\n  c: {agent: z, needs: [a], pivot: true}\n",
		"hold.yaml": "workflow: w\nsteps: {a: {agent: bank, operation: hold, undo: {}}}\n",
		"pay.yaml":  "workflow: w\nsteps: {a: {agent: bank, operation: pay, undo: {}}}\n",
		"fair.yaml": "workflow: w\nfair_by: \"${ task.labels.tenant }\"\nsteps: {a: {agent: bank, operation: hold, undo: {}}}\n",
		"turn.yaml": "workflow: w\nfair_by: acme\nsteps: {a: {agent: bank, operation: hold, undo: {}}}\n",
		"bad.yaml":  "workflow: w\nsteps: {a: {}}\n",
	})
	r := offline("workflow", "diff", dir+"/a.yaml", dir+"/same.json")
	require.Equal(t, result{0, "", ""}, r)

	r = offline("workflow", "diff", dir+"/a.yaml", dir+"/b.yaml")
	require.Equal(t, 1, r.code)
	require.Empty(t, r.err)
	for _, line := range []string{"+ deadline: 1h\n", "~ steps.a.retry.attempts: 5 -> 3\n", "- steps.a.undo: {\"agent\":\"y\"", "- steps.b: {\"agent\":\"x\"", "+ steps.c: {\"agent\":\"z\""} {
		require.Contains(t, r.out, line)
	}

	r = offline("workflow", "diff", dir+"/a.yaml", dir+"/b.yaml", "-o", "json")
	require.Equal(t, 1, r.code)
	var doc struct{ Changes []struct{ Path string } }
	require.NoError(t, json.Unmarshal([]byte(r.out), &doc))
	require.Len(t, doc.Changes, 5)

	r = offline("workflow", "diff", dir+"/hold.yaml", dir+"/pay.yaml")
	require.Equal(t, result{1, "~ steps.a.operation: hold -> pay\n~ steps.a.undo.operation: hold -> pay\n", ""}, r)

	r = offline("workflow", "diff", dir+"/hold.yaml", dir+"/fair.yaml")
	require.Equal(t, result{1, "+ fair_by: ${ task.labels.tenant }\n", ""}, r)
	r = offline("workflow", "diff", dir+"/fair.yaml", dir+"/turn.yaml")
	require.Equal(t, result{1, "~ fair_by: ${ task.labels.tenant } -> acme\n", ""}, r)
	r = offline("workflow", "diff", dir+"/turn.yaml", dir+"/hold.yaml")
	require.Equal(t, result{1, "- fair_by: acme\n", ""}, r)

	r = offline("workflow", "diff", dir+"/a.yaml", dir+"/bad.yaml")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "bad.yaml:2:9: steps.a: agent is missing")
	require.Equal(t, 2, offline("workflow", "diff", dir+"/a.yaml", "w@zero").code)
}

func TestAWorkflowOfTheEngineIsComparedToo(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.run("workflow", "diff", "nobody", "nobody@2")
	require.Equal(t, 3, r.code, r.err)
	require.Contains(t, r.err, "nobody is no file here; ask the engine for workflow nobody: ")
}

func TestTheGraphShowsNeedsConditionsPivotAndUndos(t *testing.T) {
	t.Parallel()
	const file = "../dronedelivery/files/workflow.yaml"
	r := offline("workflow", "graph", file)
	require.Equal(t, result{0, `drone-delivery
  account: agent account
  package: needs account; agent package; undo
  transport: needs account; agent transport; if ${ input.pickup.region != input.dropoff.region }; undo
  drone: needs package, transport; agent drone; undo, then the undo of package, transport
  delivery: needs drone; agent delivery; pivot
`, ""}, r)
	r = offline("workflow", "graph", file, "-o", "mermaid")
	require.Equal(t, result{0, `flowchart TD
  s0["account<br/>agent account"]
  s1["package<br/>agent package"]
  s2["transport<br/>agent transport<br/>if ${ input.pickup.region != input.dropoff.region }"]
  s3["drone<br/>agent drone"]
  s4{{"delivery<br/>agent delivery<br/>pivot"}}
  s0 --> s1
  s0 -->|if| s2
  s1 --> s3
  s2 --> s3
  s3 --> s4
  s3 -.->|undo| s1
  s3 -.->|undo| s2
`, ""}, r)
	r = offline("workflow", "graph", file, "-o", "dot")
	require.Contains(t, r.out, "  \"drone\" -> \"package\" [style=dotted, label=undo, constraint=false];\n")
	require.Contains(t, r.out, "  \"delivery\" [label=\"delivery\\nagent delivery\\npivot\", shape=hexagon];\n")
}

func TestTheGraphShowsTheItemsOfAStep(t *testing.T) {
	t.Parallel()
	const file = "../../docs/examples/workflows/invoice-run.yaml"
	const items = "for each of steps.list.output.ids, 5 at a time, up to 10% may fail"
	require.Contains(t, offline("workflow", "graph", file).out, "  send: needs list; agent post; "+items+"; undo\n")
	require.Contains(t, offline("workflow", "graph", file, "-o", "mermaid").out, `["send<br/>agent post<br/>`+items+`"]`)
	require.Contains(t, offline("workflow", "graph", file, "-o", "dot").out, `label="send\nagent post\n`+items+`"`)
}

func TestAPreviewShowsTheFirstStepsAndFaults(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r := e.run("workflow", "preview", "order", "--input", `{"item":"x"}`)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "reserve  stock           starts             {\"item\":\"x\"}")
	require.Contains(t, r.out, "charge   bank   reserve  waits")
	require.NotContains(t, r.out, "Priority")
	r = e.run("workflow", "preview", "order", "--input", `{"item":"labelled"}`)
	require.Contains(t, r.out, "Labels: item:labelled. Priority: 7.\n")
	r = e.run("workflow", "preview", "order", "--input", `{"item":5}`)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "/input/item  must be a text")
	require.Contains(t, r.err, "the input has 1 fault")
	require.Equal(t, 3, e.run("workflow", "preview", "nobody").code)
	require.Equal(t, 2, e.run("workflow", "preview", "order", "--input", "{").code)
}

func TestTitlesAreShown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "w.yaml")
	require.NoError(t, os.WriteFile(file, []byte("workflow: order\ntitle: Take an order\nsteps:\n  pay: {agent: card, title: \"Charge the \\\"card\\\"\", description: once}\n"), 0o600))
	require.Equal(t, "order: Take an order\n  pay: Charge the \"card\"; agent card\n", offline("workflow", "graph", file).out)
	require.Contains(t, offline("workflow", "graph", file, "-o", "mermaid").out, `s0["pay<br/>Charge the &quot;card&quot;<br/>agent card"]`)
	require.Contains(t, offline("workflow", "graph", file, "-o", "dot").out, `label="pay\nCharge the \"card\"\nagent card"`)
	e := setup(t)
	require.Contains(t, e.run("workflow", "show", "order").out, "Hand it to the post: Books a parcel.")
}
