package events

import "strconv"

// EncodeWork returns the record of a work request. Topic and Partition are left to the caller.
func EncodeWork(w Work, s Subject) (Record, error) {
	size := 288 + 2*len(w.Task) + len(w.Workflow) + len(w.Step) + len(w.Agent) + len(w.IdempotencyKey) + len(w.Input) + len(w.Output) + 2*len(w.Ticket)
	e := newSealer(size+attributeBytes(s, ""), attributeCount(s, w.Task)+2)
	if !e.work(&w) {
		if err := e.marshalled(0, w); err != nil {
			return Record{}, err
		}
	}
	value := len(e.b)
	e.literal(s.ID)
	e.attributes(s, bytesWork, w.Task)
	e.b = strconv.AppendInt(e.b, int64(w.Home), 10)
	e.mark(HeaderHome)
	e.header(HeaderTicket, w.Ticket)
	return e.record(w.Task, value), nil
}

func (e *encoder) work(w *Work) bool {
	e.text(`{"task":`, w.Task)
	e.number(`,"run":`, w.Run)
	e.text(`,"workflow":`, w.Workflow)
	e.number(`,"version":`, w.Version)
	e.text(`,"step":`, w.Step)
	e.text(`,"agent":`, w.Agent)
	e.text(`,"operation":`, string(w.Operation))
	e.number(`,"attempt":`, w.Attempt)
	e.text(`,"idempotency_key":`, w.IdempotencyKey)
	e.instant(`,"complete_by":`, w.CompleteBy)
	e.rawIf(`,"input":`, w.Input)
	e.rawIf(`,"output":`, w.Output)
	e.number(`,"home":`, int(w.Home))
	e.text(`,"ticket":`, w.Ticket)
	return e.end()
}

// EncodeReport returns the record of a result. It goes to partition Work.Home of <ns>.reports.
func EncodeReport(p Report, s Subject) (Record, error) {
	size := 240 + 2*len(p.Task) + len(p.Step) + 2*len(p.Ticket) + len(p.Output) + len(p.Instance)
	e := newSealer(size+attributeBytes(s, ""), attributeCount(s, p.Task)+1)
	if !e.report(&p) {
		if err := e.marshalled(0, p); err != nil {
			return Record{}, err
		}
	}
	value := len(e.b)
	e.literal(s.ID)
	e.attributes(s, bytesReport, p.Task)
	e.header(HeaderTicket, p.Ticket)
	return e.record(p.Task, value), nil
}

func (e *encoder) report(p *Report) bool {
	e.text(`{"task":`, p.Task)
	e.number(`,"run":`, p.Run)
	e.text(`,"step":`, p.Step)
	e.text(`,"operation":`, string(p.Operation))
	e.number(`,"attempt":`, p.Attempt)
	e.textIf(`,"ticket":`, p.Ticket)
	e.text(`,"result":`, string(p.Result))
	e.rawIf(`,"output":`, p.Output)
	e.failureIf(`,"error":`, p.Error)
	e.textIf(`,"effect":`, string(p.Effect))
	if p.RetryAfter != 0 {
		e.text(`,"retry_after":`, p.RetryAfter.String())
	}
	e.textIf(`,"instance":`, p.Instance)
	e.instantIf(`,"started_at":`, p.StartedAt)
	e.instantIf(`,"finished_at":`, p.FinishedAt)
	return e.end()
}

func (e *encoder) failureIf(name string, f *Error) {
	if f == nil {
		return
	}
	e.literal(name)
	e.text(`{"class":`, string(f.Class))
	e.textIf(`,"code":`, f.Code)
	e.text(`,"message":`, f.Message)
	e.rawIf(`,"detail":`, f.Detail)
	e.b = append(e.b, '}')
}
