package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A sender sends a notice once. An error that is a *permanent is not worth another attempt.
type sender interface {
	send(ctx context.Context, n Notice, body []byte) error
}

// A permanent error will not go away by itself.
type permanent struct{ error }

// A webhook sends notices by POST. Its URL and key are in no error.
type webhook struct {
	url    *url.URL
	key    []byte // of the signatures; nil for none
	agent  string
	client *http.Client
}

// newClient returns a client that follows no redirects: what they lead to has not been configured.
func newClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (w *webhook) send(ctx context.Context, n Notice, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return permanent{errors.New("the url cannot be used")}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", w.agent)
	request.Header.Set("Idempotency-Key", strconv.Quote(n.ID))
	if w.key != nil {
		request.Header.Set("Soloist-Signature", signature(w.key, time.Now(), body))
	}
	response, err := w.client.Do(request)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) { // it shows the URL
			err = of.Err
		}
		return fmt.Errorf("%s: %w", w.url.Host, err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be used again
	switch code := response.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return fmt.Errorf("%s responded %s", w.url.Host, response.Status)
	default:
		return permanent{fmt.Errorf("%s responded %s", w.url.Host, response.Status)}
	}
}

// signature returns the header Soloist-Signature: the time, and the HMAC-SHA256 of the time, a point and the body.
func signature(key []byte, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
