package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// bounded is a schema of the OpenAPI document, as far as it limits something.
type bounded struct {
	Ref                  string              `json:"$ref"`
	Minimum              *int                `json:"minimum"`
	Maximum              *int                `json:"maximum"`
	MaxLength            *int                `json:"maxLength"`
	Pattern              string              `json:"pattern"`
	MaxProperties        *int                `json:"maxProperties"`
	Properties           map[string]*bounded `json:"properties"`
	AdditionalProperties json.RawMessage     `json:"additionalProperties"`
	PropertyNames        *bounded            `json:"propertyNames"`
}

type parameter struct {
	Name   string  `json:"name"`
	Schema bounded `json:"schema"`
}

type describedCall struct {
	OperationID string                     `json:"operationId"`
	Parameters  []parameter                `json:"parameters"`
	Responses   map[string]json.RawMessage `json:"responses"`
	RequestBody *struct {
		Bytes   int `json:"x-max-bytes"`
		Content map[string]struct {
			Schema bounded `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

type description struct {
	Paths      map[string]map[string]describedCall `json:"paths"`
	Components struct {
		Schemas map[string]bounded `json:"schemas"`
	} `json:"components"`
}

func (w *world) description() (d description) {
	w.t.Helper()
	require.NoError(w.t, json.Unmarshal([]byte(w.do("GET", "/openapi.json", "").body), &d))
	return d
}

// trial is a value at a documented limit, or beyond it.
type trial struct {
	limit  string
	beyond bool
	value  string
}

// trials returns values at and beyond each limit of a schema, as text.
func (b *bounded) trials() []trial {
	var list []trial
	number := func(name string, at *int, step int) {
		if at != nil {
			list = append(list, trial{name, false, fmt.Sprint(*at)}, trial{name, true, fmt.Sprint(*at + step)})
		}
	}
	number("minimum", b.Minimum, -1)
	number("maximum", b.Maximum, 1)
	if b.MaxLength != nil {
		long := strings.Repeat("x", *b.MaxLength)
		list = append(list, trial{"maxLength", false, long}, trial{"maxLength", true, long + "x"})
	}
	if b.Pattern != "" {
		list = append(list, trial{"pattern", false, "é \u2028%"}, trial{"pattern", true, "a\u0085b"})
	}
	return list
}

// limited sends the value of a trial to the place of a limit.
type limited func(w *world, value string) reply

func submission(member, value string) limited {
	return func(w *world, v string) reply {
		return w.do("POST", "/v1/tasks", `{"workflow":"order","input":{"item":"lamp"},"`+member+`":`+strings.ReplaceAll(value, "$", v)+`}`)
	}
}

func inPath(method, format, body string) limited {
	return func(w *world, v string) reply { return w.do(method, fmt.Sprintf(format, url.PathEscape(v)), body) }
}

// ofTask submits the task first, so that the request fails only if its parameter is refused.
func ofTask(method, format string) limited {
	return func(w *world, v string) reply {
		w.do("PUT", "/v1/tasks/"+url.PathEscape(v), good)
		return inPath(method, format, "")(w, v)
	}
}

func key(kind string) limited {
	return func(w *world, v string) reply {
		return w.do("POST", "/v1/tasks/known/"+kind, "", "Idempotency-Key", v)
	}
}

func inMember(kind, name string) limited {
	return func(w *world, v string) reply {
		if name == "step" && len(v) <= 1024 { // a step must exist, too; that it does not is another fault
			v = "reserve"
		}
		return w.do("POST", "/v1/tasks/known/"+kind, `{"`+name+`":"`+v+`"}`)
	}
}

// accepting makes the engine lose what the request gives up.
func accepting(member string) limited {
	return func(w *world, v string) reply {
		w.engine.Lose(&api.Loss{Input: events.Submissions, Acceptable: true})
		if member == "reason" || member == "by" {
			v = quoted(v)
		}
		body := map[string]json.RawMessage{"input": json.RawMessage(`"submissions"`), "partition": json.RawMessage("0"), "from": json.RawMessage("0"), "to": json.RawMessage("0")}
		body[member] = json.RawMessage(v)
		b, err := json.Marshal(body)
		require.NoError(w.t, err)
		return w.do("POST", "/v1/accepted-losses", string(b))
	}
}

func opening(member string) func(w *world, v string) reply {
	return func(w *world, v string) reply {
		return w.do("POST", "/v1/jobs", `{"verb":"pause","filter":{"workflow":"other"},"`+member+`":`+quoted(v)+`}`)
	}
}

func stopping(member string) func(w *world, v string) reply {
	return func(w *world, v string) reply {
		w.do("POST", "/v1/jobs", `{"id":"j","verb":"pause","filter":{"workflow":"other"}}`)
		return w.do("POST", "/v1/jobs/j/stop", `{"`+member+`":`+quoted(v)+`}`)
	}
}

func pausing(verb, member string) limited {
	return func(w *world, v string) reply {
		return w.do("POST", "/v1/agents/payment/"+verb, `{"`+member+`":`+quoted(v)+`}`)
	}
}

// places has a request for each limited place of the document. A limit that is added needs one.
var places = map[string]limited{
	"list-takeovers partition": inPath("GET", "/v1/partitions/%s/takeovers", ""), "get-task id": ofTask("GET", "/v1/tasks/%s"), "put-task id": inPath("PUT", "/v1/tasks/%s", good),
	"task-history id": ofTask("GET", "/v1/tasks/%s/history"), "task-history limit": inPath("GET", "/v1/tasks/known/history?limit=%s", ""),
	"pause-task id": ofTask("POST", "/v1/tasks/%s/pause"), "pause-task Idempotency-Key": key("pause"), "pause-task /reason": inMember("pause", "reason"),
	"resume-task id": ofTask("POST", "/v1/tasks/%s/resume"), "resume-task Idempotency-Key": key("resume"), "resume-task /reason": inMember("resume", "reason"),
	"terminate-task id": ofTask("POST", "/v1/tasks/%s/terminate"), "terminate-task Idempotency-Key": key("terminate"), "terminate-task /reason": inMember("terminate", "reason"),
	"rerun-task id": ofTask("POST", "/v1/tasks/%s/rerun"), "rerun-task Idempotency-Key": key("rerun"),
	"rerun-task /reason": inMember("rerun", "reason"),
	"signal-task id": func(w *world, v string) reply {
		w.do("PUT", "/v1/tasks/"+url.PathEscape(v), good)
		return inPath("POST", "/v1/tasks/%s/signal", `{"signal":"go"}`)(w, v)
	},
	"signal-task Idempotency-Key": func(w *world, v string) reply {
		return w.do("POST", "/v1/tasks/known/signal", `{"signal":"go"}`, "Idempotency-Key", v)
	},
	"signal-task /signal": func(w *world, v string) reply {
		if len(v) <= events.MaxTaskID { // a step must wait for it, too; that none does is another fault
			v = "go"
		}
		return w.do("POST", "/v1/tasks/known/signal", `{"signal":"`+v+`"}`)
	},
	"signal-task /reason": func(w *world, v string) reply {
		return w.do("POST", "/v1/tasks/known/signal", `{"signal":"go","reason":"`+v+`"}`)
	},
	"skip-task id": ofTask("POST", "/v1/tasks/%s/skip"), "skip-task Idempotency-Key": key("skip"), "skip-task /reason": inMember("skip", "reason"), "skip-task /step": inMember("skip", "step"),
	"complete-task id": ofTask("POST", "/v1/tasks/%s/complete"), "complete-task Idempotency-Key": key("complete"), "complete-task /reason": inMember("complete", "reason"), "complete-task /step": inMember("complete", "step"),
	"fail-task id": ofTask("POST", "/v1/tasks/%s/fail"), "fail-task Idempotency-Key": key("fail"), "fail-task /reason": inMember("fail", "reason"), "fail-task /step": inMember("fail", "step"),
	"pause-schedule Idempotency-Key": scheduleKey("pause"), "resume-schedule Idempotency-Key": scheduleKey("resume"),
	"trigger-schedule Idempotency-Key": scheduleKey("trigger"), "backfill-schedule Idempotency-Key": scheduleKey("backfill"),
	"cancel-task id": ofTask("POST", "/v1/tasks/%s/cancel"), "cancel-task Idempotency-Key": key("cancel"),
	"retry-task id": ofTask("POST", "/v1/tasks/%s/retry"), "retry-task Idempotency-Key": key("retry"),
	"cancel-task /step": inMember("cancel", "step"), "cancel-task /reason": inMember("cancel", "reason"),
	"retry-task /step": inMember("retry", "step"), "retry-task /reason": inMember("retry", "reason"),
	"retry-task /attempt": func(w *world, v string) reply {
		return w.do("POST", "/v1/tasks/known/retry", `{"attempt":`+v+`}`)
	},
	"preview-workflow /version": func(w *world, v string) reply {
		return w.do("POST", "/v1/workflows/order/preview", `{"version":`+v+`}`)
	},
	"preview-workflow /id": func(w *world, v string) reply {
		return w.do("POST", "/v1/workflows/order/preview", `{"id":`+quoted(v)+`}`)
	},
	"list-tasks limit": inPath("GET", "/v1/tasks?limit=%s", ""), "list-dead-letters limit": inPath("GET", "/v1/dead-letters?limit=%s", ""),
	"get-workflow version": inPath("GET", "/v1/workflows/order?version=%s", ""),
	"delete-workflow-version version": func(w *world, v string) reply {
		w.do("PUT", "/v1/workflows/gone", "workflow: gone\n")
		return w.do("DELETE", "/v1/workflows/gone/versions/"+v, "")
	},
	"put-task /id": func(w *world, v string) reply {
		return w.do("PUT", "/v1/tasks/"+url.PathEscape(v), `{"workflow":"order","input":{"item":"lamp"},"id":`+quoted(v)+`}`)
	},
	"put-task /version": func(w *world, v string) reply {
		return w.do("PUT", "/v1/tasks/v"+v, `{"workflow":"order","input":{"item":"lamp"},"version":`+v+`}`)
	},
	"put-task /priority": func(w *world, v string) reply {
		return w.do("PUT", "/v1/tasks/p"+v, `{"workflow":"order","input":{"item":"lamp"},"priority":`+v+`}`)
	},
	"upgrade-namespace /to": func(w *world, v string) reply {
		r := w.do("POST", "/v1/settings/upgrade", `{"to":`+v+`}`)
		if r.status == 409 { // a level that no node understands
			r.status = 200
		}
		return r
	},
	"accept-loss /partition": accepting("partition"), "accept-loss /from": accepting("from"), "accept-loss /to": accepting("to"), "accept-loss /reason": accepting("reason"), "accept-loss /by": accepting("by"),
	"pause-agent /reason": pausing("pause", "reason"), "pause-agent /by": pausing("pause", "by"),
	"resume-agent /reason": pausing("resume", "reason"), "resume-agent /by": pausing("resume", "by"),
	"list-items id": ofTaskItems, "list-items limit": ofItems("limit"), "list-items after": ofItems("after"),
	"list-alerts limit":           inPath("GET", "/v1/alerts?limit=%s", ""),
	"dismiss-dead-letter /reason": marking("dismiss", "reason"), "dismiss-dead-letter /task": marking("dismiss", "task"), "dismiss-dead-letter /by": marking("dismiss", "by"),
	"redrive-dead-letter /reason": marking("redrive", "reason"), "redrive-dead-letter /by": marking("redrive", "by"), "reopen-dead-letter /reason": marking("reopen", "reason"), "reopen-dead-letter /by": marking("reopen", "by"),
	"acknowledge-alert /note": acknowledging("note"), "acknowledge-alert /reason": acknowledging("reason"), "acknowledge-alert /by": acknowledging("by"),
	"open-job /reason": opening("reason"), "open-job /by": opening("by"), "stop-job /reason": stopping("reason"), "stop-job /by": stopping("by"),
	"pause-limit Idempotency-Key": inHeader("/v1/limits/order%2Fk/pause"), "resume-limit Idempotency-Key": inHeader("/v1/limits/order%2Fk/resume"),
	"pause-limit /reason": inLimit("reason"), "pause-limit /by": inLimit("by"), "resume-limit /reason": inLimit("reason"), "resume-limit /by": inLimit("by"),
	"list-job-results limit": func(w *world, v string) reply {
		w.do("POST", "/v1/jobs", `{"id":"j","verb":"pause","filter":{"workflow":"other"}}`)
		return w.do("GET", "/v1/jobs/j/results?limit="+v, "")
	},
	"list-limit-waiting limit": func(w *world, v string) reply {
		w.do("PUT", "/v1/limits/bank", `{"max":2}`)
		return w.do("GET", "/v1/limits/bank/waiting?limit="+v, "")
	},
	"put-task /labels": nil, // the same code reads both bodies
	"post-task /id":    func(w *world, v string) reply { return submission("id", quoted(v))(w, "") }, "post-task /version": submission("version", "$"),
	"post-task /priority":     submission("priority", "$"),
	"post-task /labels value": submission("labels", `{"k":"$"}`), "post-task /labels name": submission("labels", `{"$":"v"}`),
}

// inHeader sends a request whose ID is the value.
func inHeader(path string) func(w *world, v string) reply {
	return func(w *world, v string) reply { return w.do("POST", path, "", "Idempotency-Key", v) }
}

// acknowledging acknowledges an open alert with the value in a member of the body.
func acknowledging(member string) func(w *world, v string) reply {
	return func(w *world, v string) reply {
		w.engine.SetAlerts([]api.Alert{missingBank}, nil)
		return w.do("POST", "/v1/alerts/"+missingBank.ID+"/acknowledge", `{"`+member+`":`+quoted(v)+`}`)
	}
}

func marking(verb, member string) func(w *world, v string) reply {
	return func(w *world, v string) reply {
		w.engine.Bury(events.Submissions, events.Record{Key: []byte("k"), Value: []byte(`{"workflow":"order","input":{"item":"x"}}`)}, "unknown_workflow")
		return w.do("POST", "/v1/dead-letters/submissions-0-0/"+verb, `{"`+member+`":`+quoted(v)+`}`)
	}
}

// inLimit pauses a limit with the value in a member of the body.
func inLimit(member string) func(w *world, v string) reply {
	return func(w *world, v string) reply {
		return w.do("POST", "/v1/limits/order%2Fk/pause", `{"`+member+`":`+quoted(v)+`}`)
	}
}

// scheduleKey asks something about a schedule, with an ID of the request.
func scheduleKey(verb string) func(w *world, v string) reply {
	return func(w *world, v string) reply {
		w.do("PUT", "/v1/schedules/known", "schedule: known")
		body := ""
		if verb == "backfill" {
			body = `{"since":"2026-11-20T00:00:00Z","until":"2026-11-20T00:30:00Z"}`
		}
		return w.do("POST", "/v1/schedules/known/"+verb, body, "Idempotency-Key", v)
	}
}

func quoted(v string) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestTheServerHasTheLimitsOfItsDocument(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/known", good)
	d := w.description()
	w.engine.Gone = []events.Missing{{Agent: "payment", Operation: events.Do}} // so that the agent is known
	tried := map[string]bool{}
	try := func(place string, b *bounded) {
		for _, x := range b.trials() {
			send := places[place]
			require.NotNil(t, send, "%s: a limit without a request in this test", place)
			tried[place+" "+x.limit] = true
			if r := send(w, x.value); x.beyond {
				require.GreaterOrEqual(t, r.status, 400, "%s %s: %q is beyond it", place, x.limit, x.value)
				require.Less(t, r.status, 500, "%s %s: %s", place, x.limit, r.body)
			} else {
				if r.status == 409 { // a request that is refused was understood
					continue
				}
				require.Less(t, r.status, 400, "%s %s: %q is at the limit: %s", place, x.limit, x.value, r.body)
			}
		}
	}
	for _, item := range d.Paths {
		for _, op := range item {
			for _, p := range op.Parameters {
				try(op.OperationID+" "+p.Name, &p.Schema)
			}
			if op.RequestBody == nil {
				continue
			}
			schema := op.RequestBody.Content["application/json"].Schema
			for name, m := range d.Components.Schemas[strings.TrimPrefix(schema.Ref, "#/components/schemas/")].Properties {
				try(op.OperationID+" /"+name, m)
			}
		}
	}
	labels := d.Components.Schemas["Submission"].Properties["labels"]
	value := new(bounded)
	require.NoError(t, json.Unmarshal(labels.AdditionalProperties, value))
	try("post-task /labels value", value)
	require.NotNil(t, labels.PropertyNames.MaxLength)
	long := strings.Repeat("k", *labels.PropertyNames.MaxLength)
	named := places["post-task /labels name"]
	require.Equal(t, 202, named(w, long).status)
	require.Equal(t, 422, named(w, long+"k").status)
	require.False(t, regexp.MustCompile(labels.PropertyNames.Pattern).MatchString("a:b"))
	require.Equal(t, 422, named(w, "a:b").status)
	for n, status := range map[int]int{*labels.MaxProperties: 202, *labels.MaxProperties + 1: 422} {
		many := map[string]string{}
		for i := range n {
			many[fmt.Sprint(i)] = "v"
		}
		b, err := json.Marshal(many)
		require.NoError(t, err)
		require.Equal(t, status, submission("labels", string(b))(w, "").status)
	}
	for _, must := range []string{"put-task id maxLength", "put-task id pattern", "cancel-task Idempotency-Key maxLength", "list-tasks limit maximum", "retry-task /reason maxLength", "post-task /priority minimum"} {
		require.True(t, tried[must], "%s is not documented", must)
	}
}

// The pattern and the check of IDs agree about each character.
func TestTheDocumentedPatternIsThatOfIDs(t *testing.T) {
	t.Parallel()
	d := setup(t).description()
	parameters := d.Paths["/v1/tasks/{id}"]["put"].Parameters
	id := slices.IndexFunc(parameters, func(p parameter) bool { return p.Name == "id" })
	pattern := regexp.MustCompile(parameters[id].Schema.Pattern)
	for r := range rune(0x300) {
		text := "a" + string(r)
		require.Equal(t, events.CheckTaskID(text) == nil, pattern.MatchString(text), "%U", r)
	}
}

func TestBodiesHaveTheLimitsOfTheDocument(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *api.Config) { c.SubmissionBytes, c.DefinitionBytes = 3000, 4000 })
	w.do("PUT", "/v1/tasks/known", good)
	bodies := map[string]string{
		"put-task": good, "post-task": good, "cancel-task": `{"reason":"why"}`, "retry-task": `{"reason":"why"}`,
		"skip-task": `{"step":"charge"}`, "complete-task": `{"step":"charge"}`, "fail-task": `{"step":"charge"}`,
		"pause-task": `{"reason":"why"}`, "resume-task": `{"reason":"why"}`, "terminate-task": `{"reason":"why"}`,
		"signal-task": `{"signal":"go"}`, "rerun-task": `{"reason":"why"}`,
		"put-workflow": "workflow: w\n", "break-service": `{"service":"drone","mode":"fail"}`,
		"put-settings": `{"settings":{"grace":"3s"}}`, "accept-loss": `{"input":"submissions","partition":0,"from":0,"to":0}`, "upgrade-namespace": `{"to":2}`,
		"preview-workflow": `{"input":{"item":"x"}}`, "pause-agent": `{"reason":"why"}`, "resume-agent": `{"reason":"why"}`,
		"report": `{"output":1}`, "acknowledge-alert": `{"note":"why"}`, "dismiss-dead-letter": `{"reason":"why"}`, "redrive-dead-letter": `{"reason":"why"}`, "reopen-dead-letter": `{"reason":"why"}`, "make-checkpoint": `{"to":"x"}`,
		"open-job": `{"id":"j","verb":"pause","filter":{"all":true}}`, "stop-job": `{"reason":"why"}`,
		"apply-schedule": "schedule: w", "pause-schedule": `{"reason":"why"}`, "resume-schedule": `{"reason":"why"}`, "trigger-schedule": `{"reason":"why"}`,
		"apply-limit": `{"limit":"w","max":2}`, "pause-limit": `{"reason":"why"}`, "resume-limit": `{"reason":"why"}`,
		"backfill-schedule": `{"since":"2026-11-20T00:00:00Z","until":"2026-11-20T01:00:00Z"}`,
	}
	w.do("POST", "/v1/jobs", `{"id":"known","verb":"pause","filter":{"workflow":"other"}}`)
	w.do("PUT", "/v1/workflows/w", "workflow: w\n")
	w.do("PUT", "/v1/schedules/w", "schedule: w")
	w.do("PUT", "/v1/limits/w", `{"limit":"w","max":2}`)
	w.engine.Gone = []events.Missing{{Agent: "w", Operation: events.Do}} // so that the agent is known
	w.engine.Lose(&api.Loss{Input: events.Submissions, Acceptable: true})
	w.engine.SetAlerts([]api.Alert{missingBank}, nil)
	w.engine.Bury(events.Submissions, events.Record{Key: []byte("k"), Value: []byte(`{"workflow":"order","input":{"item":"x"}}`)}, "unknown_workflow")
	for at, item := range w.description().Paths {
		for method, op := range item {
			if op.RequestBody == nil {
				continue
			}
			body, ok := bodies[op.OperationID]
			require.True(t, ok, op.OperationID)
			limit := op.RequestBody.Bytes
			require.Positive(t, limit, op.OperationID)
			target := strings.NewReplacer("alerts/{id}", "alerts/"+missingBank.ID, "dead-letters/{id}", "dead-letters/submissions-0-0", "{id}", "known", "{name}", "w", "{ticket}", ticket(t, callbackNamespace, callbackSecret, asIs)).Replace(at)
			r := w.do(strings.ToUpper(method), target, body+strings.Repeat(" ", limit-len(body)), "Content-Type", "application/json")
			if r.status != 409 { // a refused request was understood, and its task may have been terminated
				require.Less(t, r.status, 400, "%s: %s", op.OperationID, r.body)
			}
			r = w.do(strings.ToUpper(method), target, body+strings.Repeat(" ", limit+1-len(body)), "Content-Type", "application/json")
			require.Equal(t, 413, r.status, op.OperationID)
		}
	}
}

func TestARepeatedRequestIsAnsweredAsDocumented(t *testing.T) {
	t.Parallel()
	w := setup(t)
	d := w.description()
	for _, kind := range []string{"cancel", "retry"} {
		require.Contains(t, d.Paths["/v1/tasks/{id}/"+kind]["post"].Responses, "200")
		w.do("PUT", "/v1/tasks/"+kind, good)
		w.engine.Park(kind, "why")
		require.Equal(t, 202, w.do("POST", "/v1/tasks/"+kind+"/"+kind, "", "Idempotency-Key", "k").status)
		require.Equal(t, 200, w.do("POST", "/v1/tasks/"+kind+"/"+kind, "", "Idempotency-Key", "k").status)
	}
	require.Contains(t, d.Paths["/v1/dead-letters/{id}/redrive"]["post"].Responses, "200")
}

// Each verb has a call, and its body has exactly the members that the verb takes.
func TestEachVerbHasACallWithItsMembers(t *testing.T) {
	t.Parallel()
	d := setup(t).description()
	for _, v := range events.Verbs() {
		op, ok := d.Paths["/v1/tasks/{id}/"+string(v)]["post"]
		require.True(t, ok, v)
		schema := op.RequestBody.Content["application/json"].Schema
		if name, ok := strings.CutPrefix(schema.Ref, "#/components/schemas/"); ok {
			schema = d.Components.Schemas[name]
		}
		require.ElementsMatch(t, append([]string{"reason"}, v.Members()...), slices.Collect(maps.Keys(schema.Properties)), v)
	}
}
