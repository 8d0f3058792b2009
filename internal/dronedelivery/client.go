package dronedelivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Break activates a fault at the service with this base URL. It replaces the fault with the same mode and operation.
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

// Fix ends all faults of the service with this base URL.
func Fix(ctx context.Context, url string) error {
	return ask(ctx, http.MethodDelete, url+"/fault", nil, nil)
}

// ReadLedger reads the ledger of the service with this base URL, and calls line for each line in order.
func ReadLedger(ctx context.Context, url string, line func(Line) error) error {
	return ask(ctx, http.MethodGet, url+"/ledger", nil, func(body io.Reader) error {
		torn, err := ReadLines(body, func(l Line, _ int) error { return line(l) })
		if err == nil && torn > 0 {
			err = io.ErrUnexpectedEOF // the service sends only complete lines
		}
		return err
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
