package verify

import (
	"encoding/json"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Replies go to topics of submitters, who may delete or compact them, so they are not read. What is checked is that the facts ask for the
// replies that the submissions ask for, in topics that the partition's settings allow.

// asksFor checks the reply topic of an accepted task. sub is its submission.
func asksFor(p *partition, f *events.Fact, b *events.Submitted, sub *events.Submission, at Place) {
	if sub.ReplyTo != b.ReplyTo || sub.ReplyKey != b.ReplyKey {
		p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task,
			What: "the task is answered in the topic " + quoted(b.ReplyTo, b.ReplyKey) + ", but its submission " + string(f.Cause) + " names " + quoted(sub.ReplyTo, sub.ReplyKey)})
	}
	mayAnswer(p, f, b.ReplyTo, at)
}

func quoted(to, key string) string {
	b, _ := json.Marshal([]string{to, key}) // never fails
	return string(b)
}

// rejectedFor checks the reply topic of a rejected input, if its record is there.
func rejectedFor(p *partition, f *events.Fact, b *events.InputRejected, at Place, input *events.Record) {
	if b.Reply == nil {
		return
	}
	mayAnswer(p, f, b.Reply.To, at)
	in, _, _, ok := f.Cause.Input()
	asks := struct {
		To string `json:"reply_to"`
	}{b.Reply.To}
	if input != nil {
		_, data, err := events.Open(input)
		if asks.To = ""; err == nil {
			_ = json.Unmarshal(data, &asks) // what cannot be read asks for nothing
		}
	}
	if !ok || in != events.Submissions || asks.To != b.Reply.To {
		p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task,
			What: "the rejection is answered in the topic " + b.Reply.To + ", which the input " + string(f.Cause) + " does not ask for"})
	}
}

// mayAnswer checks that the settings that the partition has adopted allow a reply topic.
func mayAnswer(p *partition, f *events.Fact, topic string, at Place) {
	if err := p.settings.adopted.CheckReplyTopic(strings.TrimSuffix(p.topics.Events, ".events"), topic); err != nil {
		p.book.add(Finding{Check: CheckInputs, Kind: "reply_topic", Place: at, Task: f.Task, What: "a reply may not go there: " + err.Error()})
	}
}
