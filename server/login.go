package server

import (
	"net/http"
	"strings"
)

// cookieName is the cookie that has the token of a browser.
const cookieName = "soloist_token"

// secretOfRequest returns the token that a request has, in its header or from a browser that has logged in.
func secretOfRequest(r *http.Request) (string, bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		return strings.CutPrefix(header, "Bearer ")
	}
	if cookie, err := r.Cookie(cookieName); err == nil {
		return cookie.Value, true
	}
	return "", false
}

// tokenCookie returns the cookie by which a browser sends a token: only to this server, and only from its pages.
func (s *Server) tokenCookie(r *http.Request, secret string) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.BehindProxy || r.TLS != nil}
}

func (s *Server) askForToken(w http.ResponseWriter, r *http.Request) {
	s.loginForm(w, r, http.StatusOK, r.URL.Query().Get("to"), "")
}

func (s *Server) loginForm(w http.ResponseWriter, r *http.Request, status int, to, wrong string) {
	c := &call{Context: r.Context(), Request: r, w: w, server: s}
	s.render(w, c, status, &loginPage, View{Data: struct{ To, Wrong string }{localPath(to), wrong}})
}

// login keeps a token in the browser.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	to := r.PostFormValue("to")
	if err != nil || s.Tokens == nil {
		s.loginForm(w, r, http.StatusBadRequest, to, "The form could not be read.")
		return
	}
	secret := strings.TrimSpace(r.PostFormValue("token"))
	if _, known := s.Tokens.find(secret); !known {
		s.loginForm(w, r, http.StatusUnauthorized, to, "This service does not know that token.")
		return
	}
	http.SetCookie(w, s.tokenCookie(r, secret))
	seeOther(w, localPath(to))
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	gone := s.tokenCookie(r, "")
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	seeOther(w, "/login")
}
