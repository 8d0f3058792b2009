package sim

import (
	"strings"

	"github.com/sagalog/sagalog/events"
)

// garbage lands records that are not inputs: each must become a dead letter, and none may stop anything.
func (c *clients) garbage() {
	w := c.w
	if w.healed {
		return
	}
	in, p := bothInputs[w.rng.IntN(2)], w.parts[w.rng.IntN(len(w.parts))]
	r, m := c.bad(in)
	if r.Unread > 0 {
		c.unread(p, in)
		return
	}
	if len(w.parts) > 1 && w.rng.IntN(4) == 0 { // it claims to have been sent home, but is in another partition
		in, p, r = events.Submissions, w.parts[(int(events.Home("t1", w.opt.Partitions))+1)%len(w.parts)], headed(events.HeaderForwardedFrom, "0/0")
	}
	p.inputs.put(in, r, m)
}

// unread lands a batch that is too large when decompressed. A reader that begins at one of its offsets sees the rest of it.
func (c *clients) unread(p *partition, in events.Input) {
	for n := 1 + c.w.rng.Int64N(3); n > 0; n-- {
		p.inputs.put(in, events.Record{Unread: n}, &meta{Input: Input{Kind: InputGarbage}, tooLarge: true})
	}
}

// bad draws a record that is not an input of the topic.
func (c *clients) bad(in events.Input) (events.Record, *meta) {
	list := badSubmissions
	if in == events.Reports {
		list = badReports
	}
	r := list[c.w.rng.IntN(len(list))]
	r.Headers = append([]events.Header(nil), r.Headers...)
	return r, &meta{Input: Input{Kind: InputGarbage}, tooLarge: r.Unread > 0}
}

// bad returns a record that is not an input; typed returns one that claims to be of the given type.
func bad(key, value string) events.Record {
	return events.Record{Key: []byte(key), Value: []byte(value)}
}

func typed(kind, value string) events.Record {
	r := bad("t1", value)
	r.Headers = []events.Header{{Key: events.HeaderSpecVersion, Value: []byte("1.0")}, {Key: events.HeaderType, Value: []byte(kind)}, {Key: events.HeaderID, Value: []byte("x")}}
	return r
}

func headed(key, value string) events.Record {
	r := bad("t1", `{"workflow":"one","id":"t1"}`)
	r.Headers = []events.Header{{Key: key, Value: []byte(value)}}
	return r
}

// unpacked stands for a batch that is too large when decompressed.
var unpacked = events.Record{Unread: 1}

var badSubmissions = []events.Record{
	bad("g", "{"), bad("g", `{"workflow":"one"`), bad("g", `[]`), bad("g", "\xff\xfe"), {}, bad("t1", `{"task":"t1"}`), bad("", `{"workflow":"one"}`),
	bad("t1", `{"workflow":7,"id":"t1"}`), bad("t1", `{"workflow":"one","id":"t2"}`), bad("t1", `{"workflow":"one","workflow":"dag"}`),
	bad("t1", `{"workflow":"one","version":-1}`), bad("t1", `{"workflow":"one","input":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`),
	bad("t1", `{"workflow":"one","deadline":"soon"}`), bad("t1", `{"workflow":"one","reply_to":"no/topic"}`), bad("t1", `{"workflow":"one"} {}`),
	bad(strings.Repeat("k", 300), `{"workflow":"one"}`),
	headed(events.HeaderSpecVersion, "0.3"), headed(events.HeaderContentType, "application/cloudevents+json"), headed(events.HeaderContentType, "application/cloudevents-batch+json"),
	unpacked,
}

var badReports = []events.Record{
	bad("g", "{"), bad("g", `[]`), bad("g", "\xff\xfe"), {}, bad("t1", `{"task":"t1"}`), typed("sagalog.unheard-of", `{"task":"t1"}`),
	typed(events.TypeReport, `{"task":"t1","step":"only","operation":"do","attempt":"one","result":"completed"}`),
	typed(events.TypeReport, `{"task":"t1","step":"only","operation":"redo","attempt":1,"result":"completed"}`),
	typed(events.TypeReport, `{"task":"t1","step":"only","operation":"do","attempt":0,"result":"completed"}`),
	typed(events.TypeReport, `{"task":"t1","step":"only","operation":"do","attempt":1,"result":"perhaps"}`),
	typed(events.TypeReport, `{"task":"t2","step":"only","operation":"do","attempt":1,"result":"completed"}`),
	typed(events.TypeReport, `{"task":"t1","run":"first","step":"only","operation":"do","attempt":1,"result":"failed","error":7}`),
	typed(events.RequestCancel.Type(), `7`), typed(events.RequestRetry.Type(), `{"id":7}`),
	typed(events.RequestCancel.Type(), `{"id":"`+strings.Repeat("i", 300)+`","task":"t1"}`),
	typed(events.RequestRetry.Type(), `{"id":"q","task":"t1","by":"`+strings.Repeat("b", 300)+`"}`),
	typed(events.RequestCancel.Type(), `{"id":"q","task":"t2"}`),
	headed(events.HeaderSpecVersion, "0.3"), headed(events.HeaderContentType, "application/cloudevents+json"),
	unpacked,
}

// marker lands a transaction marker.
func (c *clients) marker() {
	p := c.w.parts[c.w.rng.IntN(len(c.w.parts))]
	p.inputs.put(bothInputs[c.w.rng.IntN(2)], events.Record{Control: true}, &meta{Input: Input{Kind: InputMarker}})
}
