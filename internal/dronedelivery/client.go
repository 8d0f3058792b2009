package dronedelivery

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Break puts a fault in force at the service with this base URL, in place of the one of the same mode
// and operation.
func Break(ctx context.Context, url string, f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode fault: %w", err)
	}
	return ask(ctx, http.MethodPut, url+"/fault", b, nil)
}

// Mend ends all faults of the service with this base URL.
func Mend(ctx context.Context, url string) error {
	return ask(ctx, http.MethodDelete, url+"/fault", nil, nil)
}

// ReadLedger reads the ledger of the service with this base URL, and calls line for each line in order.
func ReadLedger(ctx context.Context, url string, line func(Line) error) error {
	return ask(ctx, http.MethodGet, url+"/ledger", nil, func(body io.Reader) error {
		r := bufio.NewReader(body)
		for {
			b, err := r.ReadBytes('\n')
			if errors.Is(err, io.EOF) && len(b) == 0 {
				return nil
			}
			if err != nil {
				return err
			}
			var l Line
			if err := json.Unmarshal(b, &l); err != nil {
				return err
			}
			if err := line(l); err != nil {
				return err
			}
		}
	})
}

func ask(ctx context.Context, method, url string, body []byte, read func(io.Reader) error) (err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode >= 300 {
		var p problem
		_ = json.NewDecoder(io.LimitReader(res.Body, bodyMax)).Decode(&p)
		return fmt.Errorf("%s %s: %s: %s", method, url, res.Status, p.Detail)
	}
	if read == nil {
		return nil
	}
	if err := read(res.Body); err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	return nil
}
