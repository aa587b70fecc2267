package redisstore

// ACL is the line of docs/redis.md.
const ACL = aclLine
