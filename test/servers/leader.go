//go:build unix

package servers

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// Leads reports whether the member takes itself for the leader.
func (s *EtcdServer) Leads(ctx context.Context) bool {
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
		Leader string `json:"leader"`
	}
	return replies(ctx, http.MethodPost, s.URL+"/v3/maintenance/status", "{}", &status) && status.Leader != "" && status.Leader == status.Header.Member
}

// Leads reports whether the server takes itself for the leader.
func (s *ZooKeeperServer) Leads(context.Context) bool {
	status, err := s.Status()
	return err == nil && status.Mode == "leader"
}

// Leads reports whether the server takes itself for the leader of a stream.
func (s *NATSServer) Leads(ctx context.Context, stream string) bool {
	var report struct {
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader string `json:"leader"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if !replies(ctx, http.MethodGet, s.Monitor+"/jsz?streams=true&accounts=true", "", &report) {
		return false
	}
	for _, account := range report.Accounts {
		for _, one := range account.Streams {
			if one.Name == stream {
				return "nats-"+strings.TrimPrefix(one.Cluster.Leader, "n") == s.name
			}
		}
	}
	return false
}

// replies asks a server, and reports whether it has replied with JSON.
func replies(ctx context.Context, method, url, body string, to any) bool {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK && json.NewDecoder(response.Body).Decode(to) == nil
}
