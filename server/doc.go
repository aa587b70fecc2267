// Package server has the HTTP API of soloist: locks, leaders, semaphores and elements for programs without a client library, and what the
// command lists and changes. A program embeds its handler; soloist serve is such a program.
//
// It keeps no state but connections: any instance can renew and release any lease, and instances can die. The API is described by
// /openapi.json and docs/operate/service.md.
package server
