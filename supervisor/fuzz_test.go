package supervisor_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// fuzzedInputs bounds the lines of one run.
const fuzzedInputs = 40

const fuzzedWorkflow = `
workflow: mapped
input: {type: object, required: [n], properties: {n: {type: integer}, s: {type: string, pattern: "^[a-z]+$"}}}
defaults: {complete_within: 1s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  first: {agent: alpha, with: {k: "${ input.s }", m: "${ input.n + 1 }"}, undo: {with: "${ step.output.v }"}}
  second: {agent: beta, needs: [first], if: "${ steps.first.output.v > 0 }", undo: {}}
output: "${ steps.second.output?.v }"
`

// FuzzDecide gives an owner arbitrary records as submissions and reports, lets time pass, and crashes it in between.
// Each input becomes a fact or a dead letter, or is ignored, and is then passed (INV12). Nothing panics or stops the
// partition, and folding the log gives the owner's own state (INV2).
//
// Each line of the script is "<topic>|<content-type>|<ce_type>|<ce_subject>|<key>|<value>", where the topic is s
// (submissions) or r (reports), or "T<ms>" (let time pass), "C" (crash) or "X" (crash and lose the store).
func FuzzDecide(f *testing.F) {
	for _, s := range decideSeeds {
		f.Add([]byte(s))
	}
	// Compile once, since it takes longer than a run.
	var known versions
	compiled := scheduler.New()
	f.Fuzz(func(t *testing.T, script []byte) {
		b := newBench(t)
		if known == nil {
			for _, w := range []string{oneStep, twoSteps, pivoted, fuzzedWorkflow} {
				b.define(w)
			}
			known = b.versions
		}
		b.versions, b.partitions = slices.Clone(known), 2
		a := b.candidate("A", func(c *candidate) { c.sched = compiled }).own()
		crashes := 0
		for n, line := range bytes.Split(script, []byte("\n")) {
			if n == fuzzedInputs {
				break
			}
			crashes += obey(b, a, line)
		}
		a.run()
		for range 4 {
			a.pass(time.Second)
		}
		require.NoError(t, a.stopped)
		require.True(t, a.o.Status().Owning)
		require.LessOrEqual(t, a.o.Status().Stats.Epochs, uint64(1), "only a crash ends an epoch")
		s, accepted, _ := b.read()
		require.LessOrEqual(t, s.Partition.Epoch.N, uint64(1+crashes))
		for in, records := range b.inputs {
			require.EqualValues(t, len(records), s.Partition.Inputs[in].Next, "every input of %s is passed", in)
		}
		rejected := 0
		for _, fact := range accepted {
			if x, ok := fact.Body.(*events.InputRejected); ok {
				require.NotEqual(t, events.RejectInternal, x.Reason, x.Detail)
				if x.Held == "" {
					rejected++
				}
			}
		}
		dead := len(a.sentTo("dlq.submissions")) + len(a.sentTo("dlq.reports"))
		require.GreaterOrEqual(t, dead, rejected, "a dead letter for each rejection")
		sameEverywhere(t, b, a)
	})
}

// obey carries out one line of the script and returns how many crashes it caused.
func obey(b *bench, a *candidate, line []byte) int {
	fields := bytes.SplitN(line, []byte("|"), 6)
	if len(fields) == 6 {
		in := events.Submissions
		if string(fields[0]) == "r" {
			in = events.Reports
		}
		r := events.Record{Key: fields[4], Value: fields[5]}
		for i, h := range []string{events.HeaderContentType, events.HeaderType, events.HeaderSubject} {
			if len(fields[i+1]) > 0 {
				r.Headers = append(r.Headers, events.Header{Key: h, Value: fields[i+1]})
			}
		}
		b.put(in, r)
		a.run()
		return 0
	}
	switch {
	case len(line) > 1 && line[0] == 'T':
		ms := 0
		fmt.Sscanf(string(line[1:min(len(line), 7)]), "%d", &ms)
		a.pass(time.Duration(max(0, ms)) * time.Millisecond)
	case string(line) == "C":
		a.restart()
		a.own()
		return 1
	case string(line) == "X":
		a.store = b.candidate("fresh").store
		a.restart()
		a.own()
		return 1
	}
	return 0
}

var decideSeeds = []string{
	strings.Join([]string{
		`s||||a|{"workflow":"two","input":{"x":1.0},"labels":{"k":"v"},"priority":3}`,
		`r||sagalog.report|a|a|{"task":"a","run":1,"step":"first","operation":"do","attempt":1,"result":"completed","output":{"v":1}}`,
		`C`,
		`r|||a||{"step":"second","operation":"do","attempt":1,"result":"failed","error":{"class":"permanent","message":"no","detail":[1.0]},"effect":"none"}`,
		`T200`,
		`r|application/cloudevents+json||||{"specversion":"1.0","id":"1","source":"/x","type":"sagalog.report","subject":"a","data":{"step":"first","operation":"undo","attempt":1,"result":"completed"}}`,
	}, "\n"),
	strings.Join([]string{
		`s|application/cloudevents+json||||{"specversion":"1.0","id":"1","source":"/x","type":"x","subject":"b","data":{"workflow":"mapped","input":{"n":1,"s":"abc"}}}`,
		`r|||b||{"step":"first","operation":"do","attempt":1,"result":"completed","output":{"v":2}}`,
		`X`,
		`r||||b|{"step":"second","operation":"do","attempt":1,"result":"failed"}`, `T150`,
		`r||||b|{"step":"second","operation":"do","attempt":2,"result":"failed"}`, `T5000`,
		`r||||b|{"step":"first","operation":"undo","attempt":1,"result":"failed","error":{"class":"permanent"}}`,
	}, "\n"),
	strings.Join([]string{
		`r||sagalog.request.cancel|c|c|{"id":"q1","task":"c","reason":"early"}`, `s||||c|{"workflow":"one","deadline":"1s"}`, `T1500`,
		`r||sagalog.request.retry|c|c|{"id":"q2","task":"c","step":"only"}`, `s||||c|{"workflow":"one","deadline":"2s"}`, `s||||d|{"workflow":"one"}`, `s||||p|{"workflow":"one"}`, `T300`, `r||||p|{"step":"only","operation":"do","attempt":1,"result":"completed"}`,
	}, "\n"),
	strings.Join([]string{
		`s||||e|{"workflow":"pivoted"}`, `r||||e|{"step":"before","operation":"do","attempt":1,"result":"completed"}`, `T2000`, `T2000`,
		`r||sagalog.request.cancel|e||{"id":"q","task":"e"}`, `r||sagalog.request.retry||e|{"id":"r"}`, `C`, `T1000`,
	}, "\n"),
	`s||||i|{"workflow":"mapped","input":{"n":"x"}}` + "\n" + `s||||j|{"workflow":"mapped","input":{"n":1}}` + "\n" + `s||||k|{"workflow":"none"}` + "\n" + `s||||l|{` + "\n" + `r||x|||` + "\n" + `s||||` + "\n" + `s|application/cloudevents+xml|||m|{}`,
}
