package httpagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// completes says whether an answer with this status is a success.
func (c *call) completes(code int) bool {
	return (code >= 200 && code <= 299 || slices.Contains(c.success, code)) && !slices.Contains(c.retryOn, code)
}

// hiddenHeaders of an answer hold credentials, so expressions do not see them.
var hiddenHeaders = []string{"Set-Cookie", "Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info"}

// shape evaluates the template of the output over an answer.
func (x *exchange) shape(resp *http.Response, body json.RawMessage) (json.RawMessage, error) {
	headers := make(map[string]string, len(resp.Header))
	for name, values := range resp.Header {
		if !slices.Contains(hiddenHeaders, name) {
			headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		}
	}
	scope := exprlang.Borrow()
	defer scope.Return()
	agentfile.SetVariables(scope, x.work, x.binding.env)
	scope.Set("status", scope.Int(resp.StatusCode))
	scope.Set("headers", scope.Raw(mustMarshal(headers)))
	scope.Set("body", scope.Raw(body))
	return x.call.output.Eval(scope)
}

// addQuery adds the evaluated parameters to a URL. A null is left out, and a list repeats its parameter.
func (c *call) addQuery(scope *exprlang.Scope, u *url.URL) error {
	if c.query == nil {
		return nil
	}
	raw, err := c.query.Eval(scope)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	values := url.Values{}
	for name, raw := range members {
		var list []json.RawMessage
		if len(raw) == 0 || raw[0] != '[' {
			list = []json.RawMessage{raw}
		} else if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for _, one := range list {
			text, present, err := parameter(one)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if present {
				values.Add(name, text)
			}
		}
	}
	if more := values.Encode(); u.RawQuery == "" {
		u.RawQuery = more
	} else if more != "" {
		u.RawQuery += "&" + more
	}
	return nil
}

var errParameter = errors.New("a parameter is text, a number, true, false, null, or a list of these")

// parameter returns a value as text. A number keeps its digits.
func parameter(raw json.RawMessage) (text string, present bool, err error) {
	switch raw[0] {
	case 'n':
		return "", false, nil
	case '{', '[':
		return "", false, errParameter
	case '"':
		err := json.Unmarshal(raw, &text)
		return text, true, err
	}
	return string(raw), true, nil
}
