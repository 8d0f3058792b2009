package supervisor

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// judgeLimitRequest judges an operator's request about a limit. One that would change nothing is passed. A limit that no task needs now may be
// paused too.
func judgeLimitRequest(i *inbox, item *input) error {
	var q events.LimitRequest
	if err := json.Unmarshal(item.data, &q); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	if q.ID == "" {
		q.ID = item.env.ID
	}
	why := ""
	switch err := events.CheckLimit(q.Limit); {
	case err != nil:
		why = err.Error()
	case string(item.record.Key) != q.Limit:
		why = fmt.Sprintf("the record's key is not %q", events.Clip(q.Limit, maxDetail/4))
	case q.ID == "" || !utf8.ValidString(q.ID+q.Reason+q.By) || max(len(q.ID), len(q.By)) > events.MaxTaskID || len(q.Reason) > maxDetail:
		why = "id must be UTF-8, id and by may have up to 255 bytes, and reason up to 4096"
	}
	if why != "" {
		return i.reject(item, "", events.RejectInvalid, "the request about a limit cannot be used: "+why)
	}
	if done, err := i.elsewhere(item, q.Limit); done || err != nil {
		return err
	}
	l := i.state.Limits.Get(q.Limit)
	paused := l != nil && l.Paused != nil
	switch pause := item.env.Type == events.TypeLimitPause; {
	case pause == paused:
		return nil
	case pause:
		return i.record(i.caused(item, "", &events.LimitPaused{Limit: q.Limit, Request: q.ID, Reason: q.Reason, By: q.By}), nil)
	}
	return i.record(i.caused(item, "", &events.LimitResumed{Limit: q.Limit, Request: q.ID, Reason: q.Reason, By: q.By}), nil)
}
