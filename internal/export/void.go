package export

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// Void is a row of the table of void records: what the log holds and no reader counts, mostly written by an owner that had lost its partition. Its key is
// partition and offset, and its members are like those of Fact.
type Void struct {
	Partition int32 `parquet:"partition"`
	Offset    int64 `parquet:"offset"`
	// Time is that of the record, which its writer set.
	Time int64 `parquet:"time,timestamp(millisecond)"`
	// Why is late_claim, claim_below_barrier, epoch_over or behind_a_gap.
	Why string `parquet:"why,dict"`
	// Epoch and Sequence are those that the record names; a claim has none.
	Epoch     string `parquet:"epoch,optional,dict"`
	Sequence  *int64 `parquet:"sequence"`
	Owner     string `parquet:"owner,dict"`
	Type      string `parquet:"type,dict"`
	Task      string `parquet:"task,optional"`
	Step      string `parquet:"step,optional,dict"`
	Item      *int32 `parquet:"item"`
	Attempt   int32  `parquet:"attempt,optional"`
	Operation string `parquet:"operation,optional,dict"`
	By        string `parquet:"by,optional,dict"`
	Cause     string `parquet:"cause,optional"`
	// Data is the value of the record. One that is no JSON is a JSON text, in which U+FFFD stands for what is not UTF-8.
	Data string `parquet:"data,optional" is:"json"`
}

// Voids exports the table of void records into the directory void of cfg.Dir, like Facts.
func Voids(ctx context.Context, cfg Config) (Result, error) {
	return export(ctx, cfg, "void", func(int32) (maker[Void], error) {
		return voids{payloads: !cfg.NoPayloads, names: newLives(topicNames{}, room{})}, nil
	}, nil)
}

// voids makes the table of void records.
type voids struct {
	payloads bool
	names    *lives
}

func (voids) take(*events.Record, *Fact, *lives, func(entry[Void]) error) error { return nil }
func (voids) pass(*events.Record) error                                         { return nil }
func (voids) left(func(entry[Void]) error) error                                { return nil }
func (voids) close() error                                                      { return nil }

// void takes a void record, with the reason why it is.
func (t voids) void(r *events.Record, why string, emit func(entry[Void]) error) error {
	name := events.Name(strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix))
	row := Void{Partition: r.Partition, Offset: r.Offset, Time: int64(r.Timestamp), Why: why, Owner: t.names.writer(r), Type: string(name), Task: string(r.Key), Cause: r.Header(events.HeaderCause)}
	if when, err := events.ParseInstant(r.Header(events.HeaderTime)); err == nil {
		row.Time = int64(when)
	}
	if name != events.NamePartitionClaimed {
		at, err := events.PositionOf(r)
		if err != nil {
			return err
		}
		n := int64(at.Sequence)
		row.Epoch, row.Sequence = t.names.epochText(at.Epoch), &n
	}
	a := about{}
	if a.read(r.Value, t.names) == nil { // nothing has proved that it can be read
		row.Step, row.Attempt, row.Operation, row.By = a.step, int32(a.attempt), operationOf(name, a.operation), a.by
	}
	if step, index, ok := events.SplitItem(row.Step); ok {
		item := int32(index)
		row.Step, row.Item = step, &item
	}
	if t.payloads {
		row.Data = jsonOf(r.Value)
	}
	return emit(entry[Void]{&row, r.Offset, row.Time, "", len(row.Data) + len(row.Task) + len(row.Cause)})
}

// jsonOf returns a value as JSON on one line, though nothing has proved that it is JSON.
func jsonOf(value []byte) string {
	var line bytes.Buffer
	if len(value) == 0 || utf8.Valid(value) && json.Compact(&line, value) == nil {
		return line.String()
	}
	b, _ := json.Marshal(string(value)) // a text has no error
	return string(b)
}
