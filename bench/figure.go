package main

import "github.com/soloist-dev/soloist/internal/load"

// A figure is what one contender cost in one case and round.
type figure struct {
	load.Result
	Commands  float64 `json:"commands_per_op"`          // that the server got
	Called    float64 `json:"called_by_scripts_per_op"` // commands that the scripts of these called
	CallTime  float64 `json:"server_us_per_command"`    // that the server spent on a command
	Pushes    float64 `json:"pushes_per_op"`            // messages that the server published
	Written   float64 `json:"written_per_op"`           // bytes to the server's log
	ServerCPU float64 `json:"server_cpu_us_per_op"`

	ServiceCPU float64 `json:"service_cpu_us_per_op,omitempty"` // of the process between clients and server
}

// figureOf joins what the client and what the server counted.
func figureOf(r load.Result, c counts) figure {
	n := float64(max(1, r.Operations))
	return figure{
		Result: r, Commands: float64(c.commands) / n, Called: float64(c.called) / n, CallTime: float64(c.spent) / float64(max(1, c.commands)), Pushes: float64(c.pushes) / n, Written: float64(c.written) / n, ServerCPU: load.Micros(c.cpu) / n,
		ServiceCPU: load.Micros(c.service) / n,
	}
}

// more returns a figure that only some cases have.
func (f figure) more(name string) (float64, bool) {
	for _, m := range f.More {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}
