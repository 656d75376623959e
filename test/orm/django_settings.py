"""Settings for Django's own tests: PostgreSQL at $PGHOST, results as XML to $LS_REPORTS."""
import os


def database(name):
    return {
        'ENGINE': 'django.db.backends.postgresql',
        'HOST': os.environ['PGHOST'],
        'USER': 'postgres',
        'NAME': name
    }


DATABASES = {'default': database('django'), 'other': database('django2')}
SECRET_KEY = 'a test'
PASSWORD_HASHERS = ['django.contrib.auth.hashers.MD5PasswordHasher']
DEFAULT_AUTO_FIELD = 'django.db.models.AutoField'
USE_TZ = False
TEST_RUNNER = 'xmlrunner.extra.djangotestrunner.XMLTestRunner'
TEST_OUTPUT_DIR = os.environ['LS_REPORTS']
