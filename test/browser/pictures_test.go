package browser

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "", "the directory to write pictures of the dashboard into")

// maxPicture is how large a picture in the repository may be.
const maxPicture = 150 << 10

// Makes the pictures of the documentation: make pictures.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		return // there is nothing to check
	}
	s := open(t, false)
	s.busy()
	b := s.browse()
	for _, p := range []struct {
		name, path, scheme string
		width, height      int64
	}{
		{"overview", "/", "light", 1100, 700},
		{"timeline", "/timeline?span=5+min", "light", 1100, 520},
		{"timeline-dark", "/timeline?span=5+min", "dark", 1100, 520},
		{"job", "/job?name=import-orders", "light", 1100, 760},
		{"narrow", "/", "dark", 360, 700},
	} {
		b.scheme(p.scheme)
		b.size(p.width, p.height)
		b.visit(p.path)
		var png []byte
		b.run(chromedp.CaptureScreenshot(&png))
		if len(png) > maxPicture {
			t.Errorf("%s has %d bytes, more than %d", p.name, len(png), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(*pictures, "dashboard-"+p.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
