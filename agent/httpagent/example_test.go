package httpagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing/fstest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

// hotel binds the agent hotel to a service.
const hotel = `
agent: hotel
http: {base: "${ env.HOTEL_URL }"}
do:   {method: PUT, path: "/bookings/${ task.id }", body: "${ input }"}
undo: {method: DELETE, path: "/bookings/${ task.id }"}
`

// A program with agents in Go can run those of files beside them.
func ExampleParse() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path, r.Header.Get("Idempotency-Key") != "")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"room": 12}`)
	}))
	defer service.Close()
	env := func(name string) (string, bool) { return service.URL, name == "HOTEL_URL" } // os.LookupEnv in production
	bindings, err := httpagent.Parse("hotel.yaml", []byte(hotel), env)
	if err != nil {
		fmt.Println(err)
		return
	}
	agents := agent.NewRegistry()
	for _, b := range bindings {
		defer b.Close()
		b.Register(agents)
	}

	e, stop := sagalogtest.Open() // in production: agent.Dial
	defer stop()
	e.Apply("workflow: trip\nsteps:\n  hotel: {agent: hotel, undo: {}}\noutput: \"${ steps.hotel.output }\"\n")
	stopAgents := e.Serve(agents)
	defer stopAgents()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	task, err := e.Client().Run(ctx, client.Submission{ID: "trip-7", Workflow: "trip", Input: json.RawMessage(`{"city": "Oslo"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.State, string(task.Output))
	// Output:
	// PUT /bookings/trip-7 true
	// processed {"room":12}
}

// Every mistake of all files is in the error, with its place.
func ExampleLoad() {
	files := fstest.MapFS{"hotel.yaml": {Data: []byte("agent: hotel\nhttp: {base: \"${ env.HOTEL_URL }\"}\ndo: {methd: PUT, path: /bookings}\n")}} // os.DirFS in production
	_, err := httpagent.Load(files, func(string) (string, bool) { return "", false })
	var faults httpagent.Faults
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Println(f)
		}
	}
	// Output:
	// hotel.yaml:2:18: the environment has no variable HOTEL_URL: set it (export HOTEL_URL=...) or remove it here
	// hotel.yaml:3:5: key "method" is missing
	// hotel.yaml:3:6: unknown key "methd", did you mean "method"?
}
