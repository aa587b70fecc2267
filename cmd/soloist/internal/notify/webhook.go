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
	url   *url.URL
	key   []byte // of the signatures; nil for none
	agent string
}

// send makes one round trip. It follows no redirect: what it leads to has not been configured, and may repeat the URL.
func (w *webhook) send(ctx context.Context, n Notice, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return permanent{errors.New("the url cannot be used")}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", w.agent)
	request.Header.Set("Idempotency-Key", strconv.Quote(n.ID))
	if u := w.url.User; u != nil {
		password, _ := u.Password()
		request.SetBasicAuth(u.Username(), password)
	}
	if w.key != nil {
		request.Header.Set("Soloist-Signature", signature(w.key, time.Now(), body))
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("%s: %w", w.url.Host, err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be used again
	code := response.StatusCode
	failed := fmt.Errorf("%s responded %d %s", w.url.Host, code, http.StatusText(code)) // its own text may repeat the URL
	switch {
	case code/100 == 2:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return failed
	default:
		return permanent{failed}
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
