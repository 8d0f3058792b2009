package httpagent

import (
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/agentfile"
)

// JSONSchema returns the JSON Schema (draft 2020-12) of a binding, for editors. Its bounds and words are those of the parser. It
// describes the shape only; Parse checks the rest, above all the expressions.
func JSONSchema() []byte { return agentfile.JSONSchema(Kind()) }

func schema() agentfile.Object {
	type object = agentfile.Object
	whole, duration, mapping := agentfile.SchemaInteger, agentfile.SchemaDuration, agentfile.SchemaMapping
	statuses := func(description string) object {
		return object{"type": "array", "description": description, "items": object{"type": "integer", "minimum": 200, "maximum": 599}, "examples": [][]int{{404, 409}}}
	}
	headers := object{"type": "object", "description": "Headers by name. The values may hold expressions.", "additionalProperties": object{"type": []string{"string", "number", "boolean"}}}
	call := func(description string) object {
		return mapping(description, object{
			"method":   object{"enum": methods},
			"path":     object{"type": "string", "pattern": "^/", "description": "The path and the query. It may hold expressions, whose values are escaped.", "examples": []string{"/api/packages/${ input.id }"}},
			"headers":  headers,
			"body":     object{"description": "A JSON value whose texts may hold expressions. Absent: no body."},
			"query":    object{"type": "object", "description": "Parameters that are added to the path. A value of null leaves one out, and a list repeats it.", "examples": []object{{"limit": 10}}},
			"success":  statuses("Statuses that mean success, besides 2xx."),
			"retry_on": statuses("Statuses after which the call may be repeated."),
			"accepted": object{"type": "array", "minItems": 1, "items": object{"type": "integer", "minimum": 200, "maximum": 299}, "examples": [][]int{{202}},
				"description": "Statuses that say that the service took the work. It reports the outcome later, by a POST to the URL in the header Sagalog-Callback of the call."},
		}, "method", "path")
	}
	do := call("The request that does the step.")
	do["properties"].(object)["output"] = object{"description": "The output of the step: a JSON value whose texts may hold expressions over status, headers and body. Absent: the body.", "examples": []string{"${ body.data }"}}
	undo := call("The request that undoes the step; absent if the agent undoes nothing.")
	undo["properties"].(object)["gone"] = object{"const": "undone", "description": "404 and 410 always mean that there is nothing left to undo."}
	binding := mapping("How a step calls an HTTP service.", object{
		"agent": agentfile.SchemaAgent(),
		"http": mapping("The service, and how it is called.", object{
			"base":        object{"type": "string", "description": "The absolute URL of the service. It may name environment variables.", "examples": []string{"${ env.PACKAGE_URL }"}},
			"concurrency": whole(agent.MaxConcurrency, "How many calls are made at once."),
			"breaker": mapping("When to stop calling a service that fails.", object{
				"failures": object{"type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "The rate of failures at which it opens."},
				"window":   duration("The time over which failures are counted."),
				"calls":    whole(1_000_000, "The number of calls in a window from which it counts."),
				"open":     duration("How long it stays open before it tries again."),
			}),
			"timeout": duration("How long a call may take, at most until the attempt's complete-by time."),
			"headers": headers,
			"retry": mapping("The tries of an attempt; absent: one.", object{
				"tries": whole(agent.MaxTries, "The calls of an attempt, the first one too."), "backoff": duration("The wait before the second try."), "max_backoff": duration("The longest wait."),
			}),
			"public": agentfile.SchemaPublic(),
			"direct": object{"type": "boolean", "description": "No proxy, balancer or mesh stands between the agent and the service."},
			"tls":    trust(),
			"oauth":  tokenSource(),
			"limit":  object{"enum": []string{"adaptive", "fixed"}, "description": "Whether the agent makes fewer calls at once when they become slow. Default: adaptive."},
		}, "base"),
		"do":                    do,
		"undo":                  undo,
		agentfile.KeyOperations: agentfile.SchemaOperations(mapping("The requests of the operation.", object{"do": do, "undo": undo}, "do")),
	}, "agent", "http")
	binding["anyOf"], binding["dependentRequired"] = []object{{"required": []string{"do"}}, {"required": []string{agentfile.KeyOperations}}}, object{"undo": []string{"do"}}
	return binding
}

// trust is the schema of tls.
func trust() agentfile.Object {
	text := agentfile.SchemaText
	return agentfile.SchemaMapping("How the service is trusted, and how the agent proves itself.", agentfile.Object{
		"ca":   text("The absolute path of the certificates, in PEM form, that may have signed the service's; absent: those of the system."),
		"cert": text("The absolute path of the client's certificate."),
		"key":  text("The absolute path of its key."),
	})
}

// tokenSource is the schema of oauth.
func tokenSource() agentfile.Object {
	text := agentfile.SchemaText
	return agentfile.SchemaMapping("Where access tokens come from, by client credentials.", agentfile.Object{
		"token_url":     text("The absolute URL of the token endpoint."),
		"client_id":     text("The client's identifier."),
		"client_secret": agentfile.Object{"type": "string", "description": "The client's secret, from an environment variable.", "examples": []string{"${ env.CLIENT_SECRET }"}},
		"scopes":        agentfile.Object{"type": "array", "items": text("A scope."), "description": "The scopes that are asked for."},
	}, "token_url", "client_id", "client_secret")
}
