BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('2');
CREATE TABLE changes (
	tenant TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	definition TEXT, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	at_us BIGINT NOT NULL, 
	"by" TEXT, 
	request_id TEXT NOT NULL, 
	spec TEXT, 
	PRIMARY KEY (tenant, version)
);
INSERT INTO "changes" VALUES('default',1,NULL,'Sales','create namespace',1700000000000000,'ada','r1',NULL);
INSERT INTO "changes" VALUES('default',2,'00000000000000000000000000000001','Sales.Edits','create',1700000000000001,'ada','r2','{"type":"table","properties":{"timeColumn":"time","segmentGranularity":"P1D","hiddenColumns":["debug"]},"columns":[{"name":"time","sqlType":"timestamp"},{"name":"Added","sqlType":"bigint","comment":"ü"}]}');
CREATE TABLE definitions (
	id TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	name TEXT NOT NULL, 
	folded_namespace TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	type TEXT NOT NULL, 
	state TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	created_us BIGINT NOT NULL, 
	updated_us BIGINT NOT NULL, 
	owner TEXT, 
	updated_by TEXT, 
	location TEXT, 
	managed INTEGER NOT NULL, 
	table_id TEXT, 
	bindings TEXT, 
	stored_schema TEXT, 
	stored_version BIGINT, 
	due_us BIGINT, 
	removes_files INTEGER NOT NULL, 
	spec TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "definitions" VALUES('00000000000000000000000000000001','default','Sales','Edits','sales','edits','table','ACTIVE',2,1700000000000000,1700000000000001,'ada','ada','/warehouse/default/Sales/Edits-00000000',1,'t1','{"added": "added_1"}','{"time": "timestamp", "added": "int"}',7,NULL,0,'{"type":"table","properties":{"timeColumn":"time","segmentGranularity":"P1D","hiddenColumns":["debug"]},"columns":[{"name":"time","sqlType":"timestamp"},{"name":"Added","sqlType":"bigint","comment":"ü"}]}');
CREATE TABLE grants (
	id TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	principal TEXT NOT NULL, 
	action TEXT NOT NULL, 
	pattern TEXT NOT NULL, 
	external_type TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "grants" VALUES('g1','default','ada','READ','sales\..*',NULL);
CREATE TABLE info (
	catalog_id TEXT NOT NULL, 
	epoch TEXT NOT NULL, 
	PRIMARY KEY (catalog_id)
);
INSERT INTO "info" VALUES('0123456789abcdef0123456789abcdef','fedcba9876543210fedcba9876543210');
CREATE TABLE namespaces (
	tenant TEXT NOT NULL, 
	folded TEXT NOT NULL, 
	name TEXT NOT NULL, 
	comment TEXT, 
	properties TEXT, 
	owner TEXT, 
	version BIGINT NOT NULL, 
	PRIMARY KEY (tenant, folded)
);
INSERT INTO "namespaces" VALUES('default','sales','Sales','ours','{"k": "v"}','ada',1);
CREATE TABLE principals (
	tenant TEXT NOT NULL, 
	name TEXT NOT NULL, 
	is_admin INTEGER NOT NULL, 
	since BIGINT NOT NULL, 
	created_us BIGINT NOT NULL, 
	PRIMARY KEY (tenant, name)
);
INSERT INTO "principals" VALUES('default','ada',0,1,1700000000000000);
CREATE TABLE tenants (
	tenant TEXT NOT NULL, 
	head BIGINT NOT NULL, 
	kept_from BIGINT NOT NULL, 
	warehouse TEXT, 
	created_us BIGINT NOT NULL, roots TEXT, 
	PRIMARY KEY (tenant)
);
INSERT INTO "tenants" VALUES('default',2,0,NULL,1700000000000000,NULL);
CREATE TABLE tokens (
	id TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	principal TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	created_us BIGINT NOT NULL, 
	expires_us BIGINT, 
	used_us BIGINT, 
	PRIMARY KEY (id)
);
CREATE UNIQUE INDEX active_definitions ON definitions (tenant, folded_namespace, folded) WHERE state = 'ACTIVE';
CREATE INDEX change_requests ON changes (tenant, request_id);
CREATE INDEX grants_of ON grants (tenant, principal);
COMMIT;
