package sim

import (
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Recorded is the content of the topics at the end of a run, by name and partition: everything that an outside reader would find.
// Work requests are not included, because in the simulation they go directly from owners to agents.
type Recorded struct {
	Report *Report
	Topics map[string][][]events.Record
}

// Record runs a seed and returns its topics, under the namespace "sim".
func Record(seed uint64, opt Options) *Recorded {
	opt.uncopied = true
	w := play(seed, opt)
	return &Recorded{Report: &w.report, Topics: w.topics()}
}

func (w *World) topics() map[string][][]events.Record {
	all := map[string][][]events.Record{}
	for _, p := range w.parts {
		dead := map[events.Input][]events.Record{}
		for _, d := range p.inputs.dead {
			r := d.record
			r.Topic, r.Partition, r.Offset = "dlq.sim."+string(d.in), p.id, int64(len(dead[d.in]))
			dead[d.in] = append(dead[d.in], r)
		}
		log := slices.Clone(p.log.records)
		for i := range log {
			log[i].Topic, log[i].Partition = "sim.events", p.id
		}
		all["sim.events"] = append(all["sim.events"], log)
		for _, in := range bothInputs {
			all["sim."+string(in)] = append(all["sim."+string(in)], p.inputs.of(in).committed())
			all["dlq.sim."+string(in)] = append(all["dlq.sim."+string(in)], dead[in])
		}
	}
	value, _ := json.Marshal(&events.NamespaceCreated{ID: w.cfg.NamespaceID.String(), Partitions: w.opt.Partitions, Format: events.FormatVersion})
	all["sim.definitions"] = [][]events.Record{{{Topic: "sim.definitions", Value: value,
		Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.TypePrefix + string(events.NameNamespaceCreated))}}}}}
	return all
}
