// Package grpcadapter answers calls of google.golang.org/grpc on the leader only. It is for gRPC what elected.Elector.Handler
// is for net/http.
package grpcadapter

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/elected"
)

// UnaryInterceptor returns an interceptor that passes calls on while the replica of e leads. Otherwise it returns
// codes.Unavailable, and the handler is not called: the client, or its load balancer, tries another replica. The context of a
// call that was passed on is that of elected.Elector.Leading: it ends when the leadership does, and soloist.LeaseFrom finds the
// lease in it.
func UnaryInterceptor(e *elected.Elector) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, stop, err := e.Leading(ctx)
		if err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		defer stop()
		return next(ctx, request)
	}
}

// StreamInterceptor is UnaryInterceptor for streams. A stream that was passed on continues for as long as its handler does,
// which heeds the context of the stream.
func StreamInterceptor(e *elected.Elector) grpc.StreamServerInterceptor {
	return func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, stop, err := e.Leading(s.Context())
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		defer stop()
		return next(server, stream{s, ctx})
	}
}

// A stream is one with another context.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }
