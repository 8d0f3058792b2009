package supervisor

import (
	"github.com/sagalog/sagalog/events"
)

// What submissions ask for: replies in a topic that the settings allow.

// asked returns where the rejection of a submission is answered; nil if it asks for no reply, or for one in a topic that is not allowed.
func (x *replies) asked(item *input, task string) *events.ReplyTo {
	if task == "" {
		task, _ = events.TaskID(item.record.Key, item.env.Subject, "") // "" if they name none, or another one each
	}
	r := events.ReplyOf(item.data, task)
	if r == nil || x.settings().CheckReplyTopic(x.cfg.Namespace, r.To) != nil {
		return nil
	}
	return r
}

// forbidden rejects a submission whose reply topic is not allowed; then it returns true. A topic that was allowed before the submission was
// written is allowed: settings are in the topic of the definitions, and are read like these.
func (x *replies) forbidden(item *input, sub *events.Submission) (bool, error) {
	if x.settings().CheckReplyTopic(x.cfg.Namespace, sub.ReplyTo) == nil {
		return false, nil
	}
	c := x.inbox.catalog.catalog
	if c == nil || item.delivery > x.inbox.catalog.seen {
		x.inbox.askCatalog()
		return true, errUndefined
	}
	if s, offset := c.Settings(); offset > x.cfg.SettingsOffset {
		x.cfg.Settings, x.cfg.SettingsOffset = s, offset
		if err := x.epoch.adopt(); err != nil {
			return true, err
		}
	}
	if fault := x.settings().CheckReplyTopic(x.cfg.Namespace, sub.ReplyTo); fault != nil {
		return true, x.inbox.reject(item, sub.ID, events.RejectInvalid, fault.Error())
	}
	return false, nil
}
